//! The steps of a pod on a simulated node, decided from the pod and the times of its earlier steps.

use std::time::Duration;

use api::Timestamp;
use api::views::{PodPhase, PodView};
use runtime::Backoff;

/// How long the containers run: a number of seconds, or `forever`. Without it, [`PodDefaults`] holds.
pub const RUN_SECONDS: &str = "phalanx.dev/run-seconds";
/// The exit code of the containers. Without it, [`PodDefaults`] holds.
pub const EXIT_CODE: &str = "phalanx.dev/exit-code";
/// Time from the bind to Running, in seconds. Default: 0.
pub const START_SECONDS: &str = "phalanx.dev/start-seconds";
/// `true`: the containers ignore SIGTERM, and are killed when their grace period is over.
pub const IGNORE_STOP: &str = "phalanx.dev/ignore-stop";

/// Exit code after SIGTERM.
pub const EXIT_CODE_STOPPED: i32 = 143;
/// Exit code after SIGKILL.
pub const EXIT_CODE_KILLED: i32 = 137;

/// The kubelet's backoff: the first restart is immediate, later ones are delayed.
const CRASH_BACKOFF: Backoff = Backoff { initial: Duration::from_secs(10), max: Duration::from_secs(300) };
/// The kubelet's reset: after a run of this length the backoff starts again.
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

/// What a kubelet knows about a pod besides the pod itself. Times on the wire have whole seconds, and a waiting container has
/// none. These are exact, but are lost with the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRuntimeState {
    /// When the pod was first observed on its node.
    pub first_seen: Timestamp,
    /// When its containers were last started.
    pub started: Option<Timestamp>,
    /// When its containers last ended.
    pub last_ended: Option<Timestamp>,
    /// Whether the final delete was accepted. Finalizers may keep the pod longer.
    pub removed: bool,
}

impl PodRuntimeState {
    /// The state of a pod that is first observed at `first_seen`.
    pub fn first_seen_at(first_seen: Timestamp) -> PodRuntimeState {
        PodRuntimeState { first_seen, started: None, last_ended: None, removed: false }
    }

    /// When the containers ended that are restarted at `now`: before, or in the same step.
    pub(crate) fn last_end(&self, now: Timestamp) -> Timestamp {
        self.last_ended.filter(|ended| Some(*ended) > self.started).unwrap_or(now)
    }

    /// Records a step that was executed at `now`.
    pub fn record(&mut self, action: &KubeletAction, now: Timestamp) {
        match action {
            KubeletAction::Start => self.started = Some(now),
            // An immediate restart is one step: end and start.
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

/// The next step of a pod, and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletStep {
    /// When it is due; may be in the past.
    pub at: Timestamp,
    /// What to do.
    pub action: KubeletAction,
}

/// An action of a kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeletAction {
    /// The containers start for the first time.
    Start,
    /// The containers and the pod end.
    Finish {
        /// Exit code of every container.
        exit_code: i32,
    },
    /// The containers end, and are restarted later.
    BackOff {
        /// Exit code of every container.
        exit_code: i32,
    },
    /// The containers are restarted.
    Restart {
        /// Exit code of the previous run.
        exit_code: i32,
    },
    /// The pod has an invalid annotation, and fails.
    Refuse {
        /// The annotation, and what is wrong with it.
        message: String,
    },
    /// The pod is deleted before its end: its containers are stopped, and it fails.
    Stop,
    /// The same for containers that ignore SIGTERM.
    Kill,
    /// The pod has ended and is being deleted: the object is removed.
    Remove,
}

impl KubeletAction {
    /// Its name in the log.
    pub fn name(&self) -> &'static str {
        match self {
            KubeletAction::Start => "start",
            KubeletAction::Finish { .. } => "finish",
            KubeletAction::BackOff { .. } => "back-off",
            KubeletAction::Restart { .. } => "restart",
            KubeletAction::Refuse { .. } => "refuse",
            KubeletAction::Stop => "stop",
            KubeletAction::Kill => "kill",
            KubeletAction::Remove => "remove",
        }
    }
}

/// The next step of a bound pod; `None` if it has none without a change from outside.
pub fn next_step(pod: &PodView, state: &PodRuntimeState, defaults: &PodDefaults) -> Option<KubeletStep> {
    let at_once = |action| Some(KubeletStep { at: state.first_seen, action });
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
    let run = match SimulatedRun::of(pod, defaults) {
        Ok(run) => run,
        Err(message) => return at_once(KubeletAction::Refuse { message }),
    };
    if pod.status.phase != PodPhase::Running {
        return Some(KubeletStep { at: saturating_add(state.first_seen, run.start), action: KubeletAction::Start });
    }
    let Some(started) = running_since(pod, state) else {
        let ended = state.last_ended.unwrap_or(state.first_seen);
        let at = saturating_add(ended, run.delay_before_restart(restarts(pod)));
        return Some(KubeletStep { at, action: KubeletAction::Restart { exit_code: run.exit_code } });
    };
    let exit_code = run.exit_code;
    let action = match run.restarts {
        false => KubeletAction::Finish { exit_code },
        true if run.delay_before_restart(restarts(pod)).is_zero() => KubeletAction::Restart { exit_code },
        true => KubeletAction::BackOff { exit_code },
    };
    Some(KubeletStep { at: saturating_add(started, run.run?), action })
}

/// The error of an annotation that no simulated node can follow.
pub fn bad_annotation(pod: &PodView) -> Option<String> {
    SimulatedRun::of(pod, &PodDefaults::default()).err()
}

/// Whether the containers run, or are restarted, until the pod is deleted.
pub fn is_endless(pod: &PodView, defaults: &PodDefaults) -> bool {
    SimulatedRun::of(pod, defaults).is_ok_and(|run| run.restarts || run.run.is_none())
}

/// Whether the containers, once started, run until the pod is deleted.
pub fn runs_forever(pod: &PodView, defaults: &PodDefaults) -> bool {
    SimulatedRun::of(pod, defaults).is_ok_and(|run| run.run.is_none())
}

/// Whether running containers ignore SIGTERM. A pod that has not started has no such containers.
fn ignores_stop(pod: &PodView) -> bool {
    pod.status.phase == PodPhase::Running
        && pod.metadata.annotations.get(IGNORE_STOP).is_some_and(|text| text == "true")
}

/// How often the pod's containers were restarted.
pub(crate) fn restarts(pod: &PodView) -> u32 {
    let counts = pod.status.container_statuses.iter().map(|container| container.restart_count);
    counts.max().and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

/// Since when the containers run; `None` while they wait for a restart.
pub(crate) fn running_since(pod: &PodView, state: &PodRuntimeState) -> Option<Timestamp> {
    let running = pod.status.container_statuses.iter().find_map(|container| container.state.running.as_ref());
    // The status of a running pod without containers was written by another client.
    if running.is_none() && !pod.status.container_statuses.is_empty() {
        return None;
    }
    let reported = running.and_then(|running| running.started_at).or(pod.status.start_time);
    Some(state.started.or(reported).unwrap_or(state.first_seen))
}

/// How the annotations and the restart policy let a pod run.
struct SimulatedRun {
    start: Duration,
    /// `None`: without end.
    run: Option<Duration>,
    exit_code: i32,
    /// Whether the containers are restarted after their end.
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

/// `time` + `by`, at most the largest timestamp.
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
    fn a_bound_pod_starts_at_once_or_after_its_delay() {
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
    fn a_running_pod_ends_by_its_annotations_and_restart_policy() {
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
            let state = PodRuntimeState { started: Some(at(200.25)), ..PodRuntimeState::first_seen_at(at(100.0)) };
            assert_eq!(step(&pod, &state), want, "{policy} {annotations} {restarts}");
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
    fn restarts_back_off_from_ten_seconds_to_five_minutes() {
        for (restarts, want) in [(1, 310), (2, 320), (3, 340), (6, 600), (60, 600)] {
            let mut pod = in_phase(annotated("OnFailure", "exit=1"), PodPhase::Running, restarts);
            pod.status.container_statuses[0].state.running = None;
            let state = PodRuntimeState {
                started: Some(at(299.0)),
                last_ended: Some(at(300.0)),
                ..PodRuntimeState::first_seen_at(at(100.0))
            };
            assert_eq!(step(&pod, &state), format!("Restart {{ exit_code: 1 }} at {want}"), "{restarts} restarts");
        }
    }

    #[test]
    fn a_restarted_kubelet_reads_the_start_from_the_status() {
        let mut pod = in_phase(annotated("Never", "run=10"), PodPhase::Running, 0);
        let running = pod.status.container_statuses[0].state.running.as_mut();
        running.expect("in_phase makes it run").started_at = Some(at(50.0));
        assert_eq!(step(&pod, &PodRuntimeState::first_seen_at(at(100.0))), "Finish { exit_code: 0 } at 60");
    }

    #[test]
    fn malformed_annotations_fail_the_pod_with_a_message() {
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
    fn a_deleted_pod_is_stopped_then_removed_once() {
        for (phase, removed, want) in [
            (PodPhase::Pending, false, "Stop at 100"),
            (PodPhase::Running, false, "Stop at 100"),
            (PodPhase::Failed, false, "Remove at 100"),
            (PodPhase::Succeeded, false, "Remove at 100"),
            (PodPhase::Succeeded, true, "nothing"),
        ] {
            let mut pod = in_phase(annotated("Never", "run=nonsense"), phase, 0);
            pod.metadata.deletion_timestamp = Some(at(90.0));
            let state = PodRuntimeState { removed, ..PodRuntimeState::first_seen_at(at(100.0)) };
            assert_eq!(step(&pod, &state), want, "{phase:?}");
        }
    }

    #[test]
    fn containers_that_ignore_stop_are_killed_after_the_grace_period() {
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
    fn a_finished_pod_has_no_next_step() {
        for phase in [PodPhase::Succeeded, PodPhase::Failed] {
            assert_eq!(
                step(&in_phase(bound("Never"), phase, 0), &PodRuntimeState::first_seen_at(at(100.0))),
                "nothing"
            );
        }
    }

    #[test]
    fn the_state_has_the_times_of_start_and_end() {
        let mut state = PodRuntimeState::first_seen_at(at(1.0));
        state.record(&KubeletAction::Start, at(2.0));
        state.record(&KubeletAction::Restart { exit_code: 1 }, at(3.0));
        assert_eq!((state.started, state.last_ended), (Some(at(3.0)), Some(at(3.0))), "ended and started in one step");
        state.record(&KubeletAction::BackOff { exit_code: 1 }, at(4.0));
        state.record(&KubeletAction::Restart { exit_code: 1 }, at(14.0));
        assert_eq!((state.started, state.last_ended), (Some(at(14.0)), Some(at(4.0))));
    }
}
