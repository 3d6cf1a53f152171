"""Default numbers, each group with the script of ``tests/benchmarks`` that chose them."""

# How long to train, which loss: choose_defaults.py overlap and few (in git alone: RESULTS.md).
MAX_EPOCHS = 20  # most epochs, if held-out documents choose their number
FEW_EPOCHS = 6  # epochs without held-out documents
IMPROVEMENT = 0.01  # least relative decrease of the log-loss for which another epoch is worth its time
FEW_HELD_OUT = 20  # with fewer held-out documents nothing is chosen
FOLDS_HELD_OUT = 200  # with fewer held-out documents, models of counts choose the temperature on folds
MAX_HELD_OUT = 20_000  # most documents held out
NO_REFIT = 0.02  # up to this held-out share, the model trained without these documents is kept
N_FOLDS = 3  # folds that choose the temperature if documents are few
MANY_WRONG = 0.2  # NCLL is tried if the hinge loss gets this share of held-out documents wrong
LOSS_DRAWS, ENOUGH_FOR_LOSSES = 5, 5_000  # draws that compare NCLL and hinge; one is enough with so many documents
DOCUMENTS_A_CLASS = 30  # with fewer documents per class (mean), the sizes of classes choose the loss
EVEN_CLASSES = 1.25  # classes are even if the largest has at most this multiple of the median size
TELLING = 10  # least held-out documents outside the largest class for a choice of the training time
RARE_CLASS = 0.05  # a class is rare below this share of the largest class: macro-F1 is shown beside accuracy

# Documents without a label: unlabelled.py.
UNLABELLED_MARGIN = 0.2  # initial margin of the median document with "auto"; the hinge loss aims at 1
UNLABELLED_LEAST = 200  # with fewer labelled documents, none are held out for the decision
UNLABELLED_ALPHA, UNLABELLED_EM_EPOCHS = 0.1, 5  # pseudo-count of a word in EM, and EM's iterations
UNLABELLED_DRAWS, UNLABELLED_SHARE = 5, 0.2  # draws of held-out labelled documents, and the share held out

# Weighting and steps of counts: choose_defaults.py (in git alone).
NORM = 10.0  # length of documents, or their mean length: a scale that suits a margin of 1
SAMPLE_DOCUMENTS = 4096  # documents on which lengths and steps are measured
PRIOR_POWER = 0.125  # pseudo-counts grow with this power of document frequency: frequent words take shorter steps
PRIOR_POWERS = {"log": 0.375, "binary": 0.375}  # these forms have no idf, which reduces frequent words: larger powers
STEP_TOLERANCE = 1e-4  # documents with a smaller loss weight cause no step
MANY_CLASSES = 1_000  # from this number of classes on, messages recommend `ManyClassNB`: many_classes.py

# Lanes and rounds: choose_defaults.py lanes, scale.py batches (in git alone: RESULTS.md).
MAX_LANES = 128  # most lanes, if lanes only add statistics
ONE_LANE_DOCUMENTS = 65_536  # up to this number of documents, a single sequential lane is fast enough
STEP_LANES = 16  # lanes of sequential steps for more documents
FIRST_ROUND_DOCUMENTS = 4_096  # approximate documents of the first round; later rounds double
MAX_LANE_DOCUMENTS = 10_000  # documents of a sequential lane in a round
SHORT_LANE = 300  # with fewer documents per sequential lane and round, several lanes do not match the quality of one
ROUNDS = 4  # rounds per epoch: each costs messages between processes
SUM_BATCH = 128  # default documents per round for ``merge="sum"``
FIRST_BATCH = 8  # approximate documents of the first such round: near the prior, all documents cause the same step
SUM_TASK_DOCUMENTS = 1_000  # least documents of counts for which a task is worth its overhead, if lanes only add
PASS_DOCUMENTS = 4_096  # the same for a lane of a full pass of a mixture
SMALL_ENTRIES = 100_000  # with fewer entries, threads cost more than they save

# LDA classifiers: topics.py.
LDA_NLL_ROUNDS = 8  # rounds per epoch with `nll`, one step each
LDA_BURN_IN = 3  # first sweeps of Gibbs sampling, which are discarded
LDA_STEPS = {"hinge": 3.0, "ncll": 16.0}  # c by loss; most documents are far shorter than the mean: shorter steps
# Lanes even where one is fast enough, since a merge damps large steps; and the least documents per lane.
LDA_LANES, LDA_LANE_DOCUMENTS = 8, 16

# Very many classes: many_classes.py.
SPARSE_ROUND_ENTRIES = 1 << 24  # approximate entries of a round: one task holds them, and the counts they change
SPARSE_LANE_DOCUMENTS = 16_384  # least documents for which a task of counting is worth its overhead
SPARSE_SHARE, SPARSE_MAX_HELD_OUT = 0.1, 500  # share and most documents held out for the temperature: scoring is slow
# In units of the first step; used if too few held-out documents belong to classes with training documents.
GUESSED_TEMPERATURE, GUESSED_TEMPERATURE_OF_COUNTS = 1 / 16, 1 / 64

# Mixtures: mixtures.py.
MIXTURE_START_SHARE = 0.001  # sdEM of counts starts at this share of EM's counts: a document hardly moves all of them
MIXTURE_MARGIN = 1.0  # initial margin of the median document, the same that the hinge loss aims at
MIXTURE_EPOCHS, MIXTURE_EPOCHS_OF_COUNTS = 60, 15  # epochs of sdEM over rows, and over documents of counts
EM_CONVERGED = 1e-3  # EM has converged if a pass gains at most this many nats per document
ONLINE_EM_BATCH = 1024  # default documents per step of online EM
GENERALISED_EM_STEP = 0.5  # default step of generalised EM, as a share of the full step of EM
HIDDEN_EM_EPOCHS = 15  # iterations of EM if classes are hidden

# Tables: tables.py.
SUM_LANE_ROWS = 2_000  # least rows for which a lane of ``merge="sum"`` is worth its overhead
MEAN_LANE_ROWS = 256  # least rows for a useful lane of ``merge="mean"``
MEAN_BATCH = 32  # rows per step in such a lane
LEAST_PRIOR_SHARE = 1e-10  # least weight of the prior, as a share of the rows
PILOT_EM_EPOCHS = 10  # iterations of EM that choose the prior if features are missing

# Topic models: supervised_lda.py choose.
TOPIC_LANES = 8  # most lanes
TOPIC_LANE_DOCUMENTS = 2_500  # least documents for a useful lane
TOPIC_BATCH = 100  # documents per step, over all lanes
TOPIC_LEAST_BATCH = 10  # least documents per step of a lane
# Without labels: least steps per epoch and per training, within these bounds of documents per step and of epochs.
LDA_EPOCH_STEPS, LDA_ALL_STEPS, LDA_BATCH, LDA_EPOCHS = 15, 300, (50, 500), (10, 20)
LDA_FEW = 15_000  # with fewer documents, alpha is learned
TOPIC_MANY_DOCUMENTS = 25_000  # from this number of documents on, the default rate of topics is inverse to it
