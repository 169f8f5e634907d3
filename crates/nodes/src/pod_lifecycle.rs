//! The life of a pod on a simulated node, decided from what the pod says and what its kubelet remembers.

use std::time::Duration;

use api::Timestamp;
use api::views::{PodPhase, PodView};
use runtime::Backoff;

/// How long the containers run: a number of seconds, or `forever`. Without it, [`PodDefaults`] holds.
pub const RUN_SECONDS: &str = "phalanx.dev/run-seconds";
/// The exit code of the containers. Without it, [`PodDefaults`] holds.
pub const EXIT_CODE: &str = "phalanx.dev/exit-code";
/// Time from the bind to Running, in seconds; unset means 0.
pub const START_SECONDS: &str = "phalanx.dev/start-seconds";
/// Whether the containers do not listen when they are told to stop: `true`. They are killed when their grace is over.
pub const IGNORE_STOP: &str = "phalanx.dev/ignore-stop";

/// What a process ends with that is told to stop.
pub const EXIT_CODE_STOPPED: i32 = 143;
/// What a process ends with that is killed.
pub const EXIT_CODE_KILLED: i32 = 137;

/// The kubelet's: a container that failed once is started again at once; from then on it waits.
const CRASH_BACKOFF: Backoff = Backoff { initial: Duration::from_secs(10), max: Duration::from_secs(300) };
/// Also the kubelet's: a run this long ends the series of crashes.
const CRASH_BACKOFF_RESET: Duration = Duration::from_secs(600);

/// How long the containers of a pod run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunTime {
    /// Until the pod is deleted.
    Forever,
    /// Then they end.
    For(Duration),
}

impl RunTime {
    /// Parses a number of seconds, or `forever`.
    pub fn parse(text: &str) -> Option<RunTime> {
        match text.trim() {
            "forever" => Some(RunTime::Forever),
            seconds => parse_seconds(seconds).map(RunTime::For),
        }
    }

    fn duration(self) -> Option<Duration> {
        match self {
            RunTime::Forever => None,
            RunTime::For(duration) => Some(duration),
        }
    }
}

/// What holds for pods without the annotations [`RUN_SECONDS`] and [`EXIT_CODE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodDefaults {
    /// How long containers run. Those of a pod with `restartPolicy: Always` run forever: such a pod is a service.
    pub run_time: RunTime,
    /// The exit code of the containers.
    pub exit_code: u8,
}

impl Default for PodDefaults {
    fn default() -> PodDefaults {
        PodDefaults { run_time: RunTime::For(Duration::from_secs(1)), exit_code: 0 }
    }
}

/// What a kubelet knows of a pod beyond the pod itself. The wire has whole seconds, and says nothing of a pod that
/// waits: these are exact, but do not outlive the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRuntimeState {
    /// When the pod was first seen on its node.
    pub first_seen: Timestamp,
    /// When its containers were last started.
    pub started: Option<Timestamp>,
    /// When its containers last ended.
    pub last_ended: Option<Timestamp>,
    /// Whether the final delete was accepted; finalizers may hold the pod a while longer.
    pub removed: bool,
}

impl PodRuntimeState {
    /// Nothing but when the pod was first seen.
    pub fn first_seen_at(taken: Timestamp) -> PodRuntimeState {
        PodRuntimeState { first_seen: taken, started: None, last_ended: None, removed: false }
    }

    /// When the containers that are started again at `now` ended: before, or in this very step.
    pub(crate) fn last_end(&self, now: Timestamp) -> Timestamp {
        self.last_ended.filter(|ended| Some(*ended) > self.started).unwrap_or(now)
    }

    /// Takes note of a step that was taken at `now`.
    pub fn record(&mut self, action: &KubeletAction, now: Timestamp) {
        match action {
            KubeletAction::Start => self.started = Some(now),
            // A restart right after the end is one step with both.
            KubeletAction::Restart { .. } => {
                self.last_ended = Some(self.last_end(now));
                self.started = Some(now);
            }
            KubeletAction::BackOff { .. } => self.last_ended = Some(now),
            KubeletAction::Remove => self.removed = true,
            KubeletAction::Finish { .. } | KubeletAction::Refuse { .. } | KubeletAction::Stop | KubeletAction::Kill => {
            }
        }
    }
}

/// The next step of a pod's life, not to be taken before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletStep {
    /// When it is due; may lie in the past.
    pub at: Timestamp,
    /// What is to be done.
    pub action: KubeletAction,
}

/// What a kubelet does to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeletAction {
    /// The containers start for the first time.
    Start,
    /// The containers end, and with them the pod.
    Finish {
        /// Of every container.
        exit_code: i32,
    },
    /// The containers end, and wait to be started again.
    BackOff {
        /// Of every container.
        exit_code: i32,
    },
    /// The containers start again.
    Restart {
        /// How they ended before.
        exit_code: i32,
    },
    /// The pod says something that cannot be done, and fails.
    Refuse {
        /// What, and why not.
        message: String,
    },
    /// The pod is to go before it finished: its containers are stopped and it fails.
    Stop,
    /// The same where the containers did not stop when they were told to.
    Kill,
    /// The pod has ended and is to go: the object may be removed.
    Remove,
}

/// What `pod`, which is bound, does next; `None` while it has nothing to do but wait for others.
pub fn next_step(pod: &PodView, state: &PodRuntimeState, defaults: &PodDefaults) -> Option<KubeletStep> {
    let at_once = |act| Some(KubeletStep { at: state.first_seen, action: act });
    match (pod.metadata.is_deleting(), pod.is_finished()) {
        (true, true) if state.removed => return None,
        (true, true) => return at_once(KubeletAction::Remove),
        (true, false) if ignores_stop(pod) => {
            let at = pod.metadata.deletion_timestamp.unwrap_or(state.first_seen);
            return Some(KubeletStep { at, action: KubeletAction::Kill });
        }
        (true, false) => return at_once(KubeletAction::Stop),
        (false, true) => return None,
        (false, false) => {}
    }
    let script = match SimulatedRun::of(pod, defaults) {
        Ok(script) => script,
        Err(message) => return at_once(KubeletAction::Refuse { message }),
    };
    if pod.status.phase != PodPhase::Running {
        return Some(KubeletStep { at: saturating_add(state.first_seen, script.start), action: KubeletAction::Start });
    }
    let Some(started) = running_since(pod, state) else {
        let ended = state.last_ended.unwrap_or(state.first_seen);
        let at = saturating_add(ended, script.delay_before_restart(restarts(pod)));
        return Some(KubeletStep { at, action: KubeletAction::Restart { exit_code: script.exit_code } });
    };
    let exit_code = script.exit_code;
    let act = match script.restarts {
        false => KubeletAction::Finish { exit_code },
        true if script.delay_before_restart(restarts(pod)).is_zero() => KubeletAction::Restart { exit_code },
        true => KubeletAction::BackOff { exit_code },
    };
    Some(KubeletStep { at: saturating_add(started, script.run?), action: act })
}

/// Which annotation of the pod asks for something that no simulated node can do, and why.
pub fn bad_annotation(pod: &PodView) -> Option<String> {
    SimulatedRun::of(pod, &PodDefaults::default()).err()
}

/// Whether the containers run, or are started again and again, until the pod is deleted.
pub fn is_endless(pod: &PodView, defaults: &PodDefaults) -> bool {
    SimulatedRun::of(pod, defaults).is_ok_and(|script| script.restarts || script.run.is_none())
}

/// Whether the containers, once started, run until the pod is deleted.
pub fn runs_forever(pod: &PodView, defaults: &PodDefaults) -> bool {
    SimulatedRun::of(pod, defaults).is_ok_and(|script| script.run.is_none())
}

/// A pod that has not started has nothing that could not listen.
fn ignores_stop(pod: &PodView) -> bool {
    pod.status.phase == PodPhase::Running
        && pod.metadata.annotations.get(IGNORE_STOP).is_some_and(|text| text == "true")
}

/// How often the pod's containers were started again.
pub(crate) fn restarts(pod: &PodView) -> u32 {
    let counts = pod.status.container_statuses.iter().map(|container| container.restart_count);
    counts.max().and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

/// Since when the containers run; `None` while they wait to be started again.
pub(crate) fn running_since(pod: &PodView, state: &PodRuntimeState) -> Option<Timestamp> {
    let running = pod.status.container_statuses.iter().find_map(|container| container.state.running.as_ref());
    // A running pod without containers is one whose status somebody else wrote.
    if running.is_none() && !pod.status.container_statuses.is_empty() {
        return None;
    }
    let told = running.and_then(|running| running.started_at).or(pod.status.start_time);
    Some(state.started.or(told).unwrap_or(state.first_seen))
}

/// What the annotations ask for.
struct SimulatedRun {
    start: Duration,
    /// `None` for ever.
    run: Option<Duration>,
    exit_code: i32,
    /// Whether the containers are started again when they have ended.
    restarts: bool,
}

impl SimulatedRun {
    fn of(pod: &PodView, defaults: &PodDefaults) -> Result<SimulatedRun, String> {
        let always = !matches!(pod.spec.restart_policy.as_str(), "Never" | "OnFailure");
        let default_run = if always { RunTime::Forever } else { defaults.run_time };
        let exit_code = exit_code(pod)?.unwrap_or(defaults.exit_code).into();
        Ok(SimulatedRun {
            start: annotation(pod, START_SECONDS, "a number of seconds", parse_seconds)?.unwrap_or_default(),
            run: run_time(pod)?.unwrap_or(default_run).duration(),
            exit_code,
            restarts: always || (pod.spec.restart_policy == "OnFailure" && exit_code != 0),
        })
    }

    fn delay_before_restart(&self, restarts: u32) -> Duration {
        if self.run.is_some_and(|run| run >= CRASH_BACKOFF_RESET) {
            Duration::ZERO
        } else {
            CRASH_BACKOFF.delay(restarts)
        }
    }
}

fn run_time(pod: &PodView) -> Result<Option<RunTime>, String> {
    annotation(pod, RUN_SECONDS, "a number of seconds or forever", RunTime::parse)
}

fn exit_code(pod: &PodView) -> Result<Option<u8>, String> {
    annotation(pod, EXIT_CODE, "a number from 0 to 255", |text| text.trim().parse().ok())
}

/// The value of the annotation `name`; `None` without it.
fn annotation<T>(
    pod: &PodView,
    name: &str,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(text) = pod.metadata.annotations.get(name) else { return Ok(None) };
    parse(text).map(Some).ok_or_else(|| format!("annotation {name}: {text:?} is not {expected}"))
}

fn parse_seconds(text: &str) -> Option<Duration> {
    text.trim().parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// `time` and a while; the end of time when that is too far.
fn saturating_add(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::tests::{bound, in_phase};

    fn at(seconds: f64) -> Timestamp {
        saturating_add(Timestamp::UNIX_EPOCH, Duration::from_secs_f64(seconds))
    }

    fn step(pod: &PodView, state: &PodRuntimeState) -> String {
        step_text(next_step(pod, state, &PodDefaults::default()))
    }

    fn step_text(step: Option<KubeletStep>) -> String {
        step.map_or("nothing".to_owned(), |step| {
            format!("{:?} at {}", step.action, step.at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64())
        })
    }

    /// Annotations as `run=1.5 exit=2 start=3`.
    fn annotated(policy: &str, annotations: &str) -> PodView {
        let mut pod = bound(policy);
        for word in annotations.split_whitespace() {
            let (name, value) = word.split_once('=').expect("name=value");
            let name = match name {
                "run" => RUN_SECONDS,
                "exit" => EXIT_CODE,
                _ => START_SECONDS,
            };
            pod.metadata.annotations.insert(name.to_owned(), value.to_owned());
        }
        pod
    }

    #[test]
    fn a_bound_pod_starts_when_it_was_taken_or_so_much_later() {
        for (annotations, want) in [
            ("", "Start at 100"),
            ("start=2.5", "Start at 102.5"),
            ("start=0", "Start at 100"),
            ("start=1e15", "Start at 253402207201"),
        ] {
            assert_eq!(
                step(&annotated("Never", annotations), &PodRuntimeState::first_seen_at(at(100.0))),
                want,
                "{annotations}"
            );
        }
    }

    #[test]
    fn a_running_pod_ends_as_its_annotations_and_restart_policy_say() {
        for (policy, annotations, restarts, want) in [
            ("Never", "", 0, "Finish { exit_code: 0 } at 201.25"),
            ("Never", "run=0", 0, "Finish { exit_code: 0 } at 200.25"),
            ("Never", "run=2.5 exit=7", 0, "Finish { exit_code: 7 } at 202.75"),
            ("OnFailure", "run=5", 3, "Finish { exit_code: 0 } at 205.25"),
            ("OnFailure", "run=5 exit=1", 0, "Restart { exit_code: 1 } at 205.25"),
            ("OnFailure", "run=5 exit=1", 1, "BackOff { exit_code: 1 } at 205.25"),
            ("OnFailure", "run=700 exit=1", 4, "Restart { exit_code: 1 } at 900.25"),
            ("Always", "", 0, "nothing"),
            ("Always", "exit=1", 0, "nothing"),
            ("Always", "run=5", 1, "BackOff { exit_code: 0 } at 205.25"),
            ("", "", 0, "nothing"),
        ] {
            let pod = in_phase(annotated(policy, annotations), PodPhase::Running, restarts);
            let memory = PodRuntimeState { started: Some(at(200.25)), ..PodRuntimeState::first_seen_at(at(100.0)) };
            assert_eq!(step(&pod, &memory), want, "{policy} {annotations} {restarts}");
        }
    }

    #[test]
    fn defaults_hold_for_pods_without_annotations_and_run_time_not_for_services() {
        let (forever, five) = (RunTime::Forever, RunTime::For(Duration::from_secs(5)));
        for (policy, annotations, run_time, exit_code, want) in [
            ("Never", "", five, 3, "Finish { exit_code: 3 } at 205"),
            ("Never", "", forever, 3, "nothing"),
            ("Never", "run=2 exit=0", five, 3, "Finish { exit_code: 0 } at 202"),
            ("Never", "run=2", forever, 0, "Finish { exit_code: 0 } at 202"),
            ("Never", "run=forever", five, 0, "nothing"),
            ("OnFailure", "", five, 1, "Restart { exit_code: 1 } at 205"),
            ("Always", "", five, 1, "nothing"),
            ("Always", "run=2", five, 1, "Restart { exit_code: 1 } at 202"),
        ] {
            let pod = in_phase(annotated(policy, annotations), PodPhase::Running, 0);
            let state = PodRuntimeState { started: Some(at(200.0)), ..PodRuntimeState::first_seen_at(at(100.0)) };
            let defaults = PodDefaults { run_time, exit_code };
            assert_eq!(step_text(next_step(&pod, &state, &defaults)), want, "{policy} {annotations} {defaults:?}");
            assert_eq!(runs_forever(&pod, &defaults), want == "nothing", "{policy} {annotations}");
            assert_eq!(is_endless(&pod, &defaults), want == "nothing" || want.starts_with("Restart"), "{policy}");
        }
    }

    #[test]
    fn a_run_time_is_a_number_of_seconds_or_forever() {
        assert_eq!(RunTime::parse("forever"), Some(RunTime::Forever));
        assert_eq!(RunTime::parse("1.5"), Some(RunTime::For(Duration::from_millis(1500))));
        for text in ["", "for ever", "-1", "1s", "NaN"] {
            assert_eq!(RunTime::parse(text), None, "{text}");
        }
    }

    #[test]
    fn containers_wait_ten_seconds_doubling_up_to_five_minutes_for_their_next_start() {
        for (restarts, want) in [(1, 310), (2, 320), (3, 340), (6, 600), (60, 600)] {
            let mut pod = in_phase(annotated("OnFailure", "exit=1"), PodPhase::Running, restarts);
            pod.status.container_statuses[0].state.running = None;
            let memory = PodRuntimeState {
                started: Some(at(299.0)),
                last_ended: Some(at(300.0)),
                ..PodRuntimeState::first_seen_at(at(100.0))
            };
            assert_eq!(step(&pod, &memory), format!("Restart {{ exit_code: 1 }} at {want}"), "{restarts} restarts");
        }
    }

    #[test]
    fn a_kubelet_that_was_restarted_goes_by_the_status() {
        let mut pod = in_phase(annotated("Never", "run=10"), PodPhase::Running, 0);
        let running = pod.status.container_statuses[0].state.running.as_mut();
        running.expect("in_phase makes it run").started_at = Some(at(50.0));
        assert_eq!(step(&pod, &PodRuntimeState::first_seen_at(at(100.0))), "Finish { exit_code: 0 } at 60");
    }

    #[test]
    fn malformed_annotations_fail_the_pod_and_say_why() {
        for (annotations, want) in [
            ("run=soon", "annotation phalanx.dev/run-seconds: \"soon\" is not a number of seconds or forever"),
            ("run=-1", "annotation phalanx.dev/run-seconds: \"-1\" is not a number of seconds or forever"),
            ("run=", "annotation phalanx.dev/run-seconds: \"\" is not a number of seconds or forever"),
            ("start=forever", "annotation phalanx.dev/start-seconds: \"forever\" is not a number of seconds"),
            ("start=NaN", "annotation phalanx.dev/start-seconds: \"NaN\" is not a number of seconds"),
            ("start=1e30", "annotation phalanx.dev/start-seconds: \"1e30\" is not a number of seconds"),
            ("exit=256", "annotation phalanx.dev/exit-code: \"256\" is not a number from 0 to 255"),
        ] {
            let state = PodRuntimeState::first_seen_at(at(100.0));
            let step = next_step(&annotated("Never", annotations), &state, &PodDefaults::default());
            let want = KubeletStep { at: at(100.0), action: KubeletAction::Refuse { message: want.to_owned() } };
            assert_eq!(step, Some(want), "{annotations}");
        }
    }

    #[test]
    fn a_pod_that_is_to_go_is_stopped_then_removed_once() {
        for (phase, removed, want) in [
            (PodPhase::Pending, false, "Stop at 100"),
            (PodPhase::Running, false, "Stop at 100"),
            (PodPhase::Failed, false, "Remove at 100"),
            (PodPhase::Succeeded, false, "Remove at 100"),
            (PodPhase::Succeeded, true, "nothing"),
        ] {
            let mut pod = in_phase(annotated("Never", "run=nonsense"), phase, 0);
            pod.metadata.deletion_timestamp = Some(at(90.0));
            let memory = PodRuntimeState { removed, ..PodRuntimeState::first_seen_at(at(100.0)) };
            assert_eq!(step(&pod, &memory), want, "{phase:?}");
        }
    }

    #[test]
    fn containers_that_do_not_listen_are_killed_when_their_grace_is_over() {
        for (phase, ignores, want) in [
            (PodPhase::Running, "true", "Kill at 130"),
            (PodPhase::Pending, "true", "Stop at 100"),
            (PodPhase::Running, "no", "Stop at 100"),
        ] {
            let mut pod = in_phase(annotated("Never", ""), phase, 0);
            pod.metadata.annotations.insert(IGNORE_STOP.to_owned(), ignores.to_owned());
            pod.metadata.deletion_timestamp = Some(at(130.0));
            assert_eq!(step(&pod, &PodRuntimeState::first_seen_at(at(100.0))), want, "{phase:?} {ignores}");
        }
    }

    #[test]
    fn a_finished_pod_has_nothing_left_to_do() {
        for phase in [PodPhase::Succeeded, PodPhase::Failed] {
            assert_eq!(
                step(&in_phase(bound("Never"), phase, 0), &PodRuntimeState::first_seen_at(at(100.0))),
                "nothing"
            );
        }
    }

    #[test]
    fn memory_keeps_when_containers_started_and_ended() {
        let mut memory = PodRuntimeState::first_seen_at(at(1.0));
        memory.record(&KubeletAction::Start, at(2.0));
        memory.record(&KubeletAction::Restart { exit_code: 1 }, at(3.0));
        assert_eq!(
            (memory.started, memory.last_ended),
            (Some(at(3.0)), Some(at(3.0))),
            "ended and started in one step"
        );
        memory.record(&KubeletAction::BackOff { exit_code: 1 }, at(4.0));
        memory.record(&KubeletAction::Restart { exit_code: 1 }, at(14.0));
        assert_eq!((memory.started, memory.last_ended), (Some(at(14.0)), Some(at(4.0))));
    }
}
