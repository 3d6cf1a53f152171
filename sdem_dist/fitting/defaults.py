"""The numbers that decide something by default, and the script of ``tests/benchmarks`` that chose them."""

# How long to train, which loss: choose_defaults.py overlap and few (in git alone: RESULTS.md).
MAX_EPOCHS = 20  # epochs at most where held-out documents choose
FEW_EPOCHS = 6  # epochs where nothing chooses them
IMPROVEMENT = 0.01  # share by which the log-loss has to fall for another epoch to be worth its time
FEW_HELD_OUT = 20  # with fewer held-out documents nothing is chosen
FOLDS_HELD_OUT = 200  # with fewer held-out documents of counts folds give the temperature instead
MAX_HELD_OUT = 20_000  # documents held out at most
NO_REFIT = 0.02  # held-out share so small that it is not missed: the model that was trained without them is kept
N_FOLDS = 3  # folds that give the temperature of few documents
MANY_WRONG = 0.2  # share of held-out documents that the hinge loss has to get wrong for NCLL to be tried
LOSS_DRAWS, ENOUGH_FOR_LOSSES = 5, 5_000  # held-out draws that have to agree on NCLL, unless one has so many documents
DOCUMENTS_A_CLASS = 30  # in the mean, under which they are few: their loss is chosen by the sizes of classes
EVEN_CLASSES = 1.25  # times the median that the largest of even classes has at most
TELLING = 10  # held-out documents of all classes but the largest, without which they choose no training time
RARE_CLASS = 0.05  # share of the largest class under which a class is rare: macro-F1 is shown beside accuracy

# Documents without a label: unlabelled.py.
UNLABELLED_MARGIN = 0.2  # lead of the first class in the median document that "auto" starts at; hinge loss asks for 1
UNLABELLED_LEAST = 200  # with fewer labelled documents none are held out to decide
UNLABELLED_ALPHA, UNLABELLED_EM_EPOCHS = 0.1, 5  # pseudo-count of a word in EM, and its iterations
UNLABELLED_DRAWS, UNLABELLED_SHARE = 5, 0.2  # how often labelled documents are held out, and how many of them

# Weighting and steps of counts: choose_defaults.py (in git alone).
NORM = 10.0  # length of documents, or their mean length: the scale on which a margin of 1 is neither near nor far
SAMPLE_DOCUMENTS = 4096  # documents that lengths and steps are measured on
PRIOR_POWER = 0.125  # of a word's document frequency in its pseudo-count, so that frequent words take shorter steps
PRIOR_POWERS = {"log": 0.375, "binary": 0.375}  # without idf, which makes frequent words light, the prior has to
STEP_TOLERANCE = 1e-4  # loss weight under which a document asks for no step
MANY_CLASSES = 1_000  # classes from which on `ManyClassNB` is named: many_classes.py

# Lanes and rounds: choose_defaults.py lanes, scale.py batches (in git alone: RESULTS.md).
MAX_LANES = 128  # lanes at most, where lanes only add
ONE_LANE_DOCUMENTS = 65_536  # documents up to which one lane, a run through all of them, is fast enough
STEP_LANES = 16  # lanes of sequential steps where there are more documents
FIRST_ROUND_DOCUMENTS = 4_096  # documents of the first round, about: rounds double from there on
MAX_LANE_DOCUMENTS = 10_000  # documents of a sequential lane in a round
SHORT_LANE = 300  # documents of a sequential lane in a round under which several lanes do not find what one finds
ROUNDS = 4  # rounds of an epoch: each costs messages between processes
SUM_BATCH = 128  # default documents of a round for ``merge="sum"``
FIRST_BATCH = 8  # of the first such round, about: near the prior all documents of a batch ask for the same step
SUM_TASK_DOCUMENTS = 1_000  # documents of counts that make a task worth its overhead, where lanes only add
PASS_DOCUMENTS = 4_096  # the same for a lane of a full pass of a mixture
SMALL_ENTRIES = 100_000  # entries under which threads cost more than they save

# LDA classifiers: topics.py.
LDA_NLL_ROUNDS = 8  # rounds of an epoch with `nll`, a step each
LDA_BURN_IN = 3  # sweeps of Gibbs sampling of which nothing is kept
LDA_STEPS = {"hinge": 3.0, "ncll": 16.0}  # c by loss: most documents are far shorter than the mean one, and go less far
# Lanes where one is fast enough, and documents that each has at least: what they learn is damped where it is much.
LDA_LANES, LDA_LANE_DOCUMENTS = 8, 16

# Very many classes: many_classes.py.
SPARSE_ROUND_ENTRIES = 1 << 24  # of the documents of a round, about: one task holds them, and the counts they move
SPARSE_LANE_DOCUMENTS = 16_384  # documents that make a task worth its overhead, where documents are counted
SPARSE_SHARE, SPARSE_MAX_HELD_OUT = 0.1, 500  # for the temperature: each is scored for all classes at many of them
# In units of the first step, where too few held-out documents are of classes that have others.
GUESSED_TEMPERATURE, GUESSED_TEMPERATURE_OF_COUNTS = 1 / 16, 1 / 64

# Mixtures: mixtures.py.
MIXTURE_START_SHARE = 0.001  # of EM's counts that sdEM of counts starts with: a document hardly moves them all
MIXTURE_MARGIN = 1.0  # lead of the first class at the start, in the median document; the hinge loss asks for as much
MIXTURE_EPOCHS, MIXTURE_EPOCHS_OF_COUNTS = 60, 15  # passes of sdEM over rows, and over documents of counts
EM_CONVERGED = 1e-3  # Nats per document that a pass gains at most, once EM has converged
ONLINE_EM_BATCH = 1024  # default documents of a step of online EM
GENERALISED_EM_STEP = 0.5  # default share of the way that generalised EM goes
HIDDEN_EM_EPOCHS = 15  # iterations of EM where classes are hidden

# Tables: tables.py.
SUM_LANE_ROWS = 2_000  # rows that make a lane of ``merge="sum"`` worth its overhead
MEAN_LANE_ROWS = 256  # rows from which a lane of ``merge="mean"`` learns something of its own
MEAN_BATCH = 32  # rows of a step in such a lane
LEAST_PRIOR_SHARE = 1e-10  # share of the rows that the prior counts for at least
PILOT_EM_EPOCHS = 10  # iterations of EM, where features are missing, after which the prior is chosen

# Topic models: supervised_lda.py choose.
TOPIC_LANES = 8  # lanes at most
TOPIC_LANE_DOCUMENTS = 2_500  # documents from which a lane learns something of its own
TOPIC_BATCH = 100  # documents of a step, of all lanes together
TOPIC_LEAST_BATCH = 10  # the same of one lane, at least
# Without labels: steps of an epoch and of a training at least, within these numbers of documents of a step, and epochs.
LDA_EPOCH_STEPS, LDA_ALL_STEPS, LDA_BATCH, LDA_EPOCHS = 15, 300, (50, 500), (10, 20)
LDA_FEW = 15_000  # documents under which alpha is learned
TOPIC_MANY_DOCUMENTS = 25_000  # documents from which the default rate of topics falls, as one over their number
