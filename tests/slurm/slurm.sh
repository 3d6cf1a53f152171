#!/usr/bin/env bash
# A real Slurm of one node on this machine, for tests: munged, slurmctld and slurmd on loopback, as root.
#
#   slurm.sh install   Debian packages: Slurm, its qsub/qstat/qdel, an SSH server
#   slurm.sh start     start it, or find it running; prints SLURM_CONF=...
#   slurm.sh stop      cancel its jobs and end its daemons
#
# Everything lies in $SDEM_SLURM (default /tmp/sdem-slurm-tests); nothing is written to /etc.
set -euo pipefail
home=${SDEM_SLURM:-/tmp/sdem-slurm-tests}
port=${SDEM_SLURM_PORT:-26817}
cpus=4 memory=8000 # what the node claims; tests ask for more to be refused
export PATH=$PATH:/usr/sbin:/sbin SLURM_CONF=$home/slurm.conf

fail() {
  echo "slurm.sh: $*" >&2
  tail -n 15 "$home"/*.log >&2 2>/dev/null || true
  exit 1
}

install_packages() {
  type slurmctld slurmd sbatch munged qsub sshd >/dev/null 2>&1 && return
  # Debian starts daemons on installation unless this policy forbids it.
  local policy=/usr/sbin/policy-rc.d ours=
  [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy; chmod 755 $policy; ours=1; }
  local log status=0
  log=$(mktemp)
  {
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
      -o DPkg::Lock::Timeout=120 slurmctld slurmd slurm-client slurm-wlm-torque munge openssh-server openssh-client
  } >"$log" 2>&1 </dev/null || status=$?
  [ -z "$ours" ] || rm -f $policy
  [ $status = 0 ] || cat "$log" >&2
  rm -f "$log"
  return $status
}

running() { # the process of our daemon $1, if it lives
  local pid
  pid=$(cat "$home/$1.pid" 2>/dev/null) && grep -qsaF "$home/" "/proc/$pid/cmdline" && echo "$pid"
}

write_configuration() { # $1: name of the node
  cat >"$home/slurm.conf" <<CONF
ClusterName=sdem
SlurmctldHost=$1(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$home/munge.socket,cred_expire=5
CredType=cred/munge
SlurmctldPidFile=$home/slurmctld.pid
SlurmdPidFile=$home/slurmd.pid
SlurmctldLogFile=$home/slurmctld.log
SlurmdLogFile=$home/slurmd.log
StateSaveLocation=$home/state
SlurmdSpoolDir=$home/spool
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=100
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
KillWait=3
MinJobAge=120
NodeName=$1 NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$memory State=UNKNOWN
PartitionName=test Nodes=$1 Default=YES MaxTime=INFINITE State=UP
CONF
  printf 'CgroupAutomount=no\nConstrainCores=no\nConstrainRAMSpace=no\n' >"$home/cgroup.conf"
}

wait_for() { # wait_for SECONDS COMMAND...
  local last=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $last ] || return 1
    sleep 0.2
  done
}

up() { timeout 5 sinfo --noheader --format=%T 2>/dev/null | grep -qxE 'idle|mixed|allocated|completing'; }
done_with() { timeout 5 squeue --noheader --states=all --jobs="$1" --format=%T 2>/dev/null | grep -qx COMPLETED; }
ended() { ! running "$1" >/dev/null; }
no_jobs() { [ -z "$(timeout 5 squeue --noheader 2>/dev/null)" ]; }

start() {
  if running munged >/dev/null && running slurmctld >/dev/null && running slurmd >/dev/null && up; then
    echo "SLURM_CONF=$SLURM_CONF"
    return
  fi
  [ "$(id -u)" = 0 ] || fail "needs root: slurmd starts jobs as their submitter"
  type slurmctld slurmd munged >/dev/null 2>&1 || fail "not installed; see: slurm.sh install"
  stop
  rm -rf "$home"
  mkdir -p "$home/state" "$home/spool" "$home/keys"
  chmod 755 "$home" && chmod 700 "$home/keys"
  # The daemons listen where their host's name leads, which has to be loopback.
  local node prefix=()
  node=$(hostname -s)
  if [[ $(getent ahostsv4 "$(hostname)" | head -n 1) != 127.* ]]; then
    node=localhost
    # shellcheck disable=SC2016
    prefix=(unshare --uts sh -c 'hostname localhost && exec "$@"' sh)
  fi
  write_configuration "$node"
  (umask 077 && head -c 128 /dev/urandom >"$home/keys/munge.key")
  munged --key-file="$home/keys/munge.key" --seed-file="$home/keys/seed" --socket="$home/munge.socket" \
    --pid-file="$home/munged.pid" --log-file="$home/munged.log" >"$home/munged.out.log" 2>&1 </dev/null || fail munged
  "${prefix[@]}" slurmctld -f "$SLURM_CONF" >"$home/slurmctld.out.log" 2>&1 </dev/null || fail slurmctld
  "${prefix[@]}" slurmd -f "$SLURM_CONF" >"$home/slurmd.out.log" 2>&1 </dev/null || fail slurmd
  wait_for 30 up || fail "the node is not up: $(sinfo --Node --long 2>&1)"
  local job
  job=$(sbatch --parsable --ntasks=1 --mem=10 --chdir=/ --output=/dev/null --wrap=true) || fail "sbatch does not work"
  wait_for 30 done_with "$job" || fail "a first job did not run"
  echo "SLURM_CONF=$SLURM_CONF"
}

stop() {
  local name pid
  if running slurmctld >/dev/null && ! no_jobs; then
    squeue --noheader --format=%A | xargs -r scancel || true
    wait_for 15 no_jobs || true
  fi
  for name in slurmd slurmctld munged; do
    pid=$(running $name) || continue
    kill "$pid"
    wait_for 5 ended $name || kill -9 "$pid" || true
  done
}

case ${1:-} in
  install) install_packages ;;
  start) start ;;
  stop) stop ;;
  *) fail "say install, start or stop" ;;
esac
