//! The Job controller's decisions, without a server: values in, the next step out.

#![allow(clippy::unwrap_used)]

mod decisions; // tables: one observation, one step
mod policies; // the same for rules about failures and successes
mod indexed; // the same for limits of each index, and for Jobs that grow and shrink
mod extremes; // the largest and smallest numbers
mod server_compat; // a server that lacks kinds or drops fields
mod groups; // scheduling objects: created, found, updated, or not ours
mod expected_count; // how many pods a gang can still have
mod settings; // settings, labels, named Workloads, suspension
mod turnover; // pods that end faster than they are counted
mod crash_recovery; // a controller that crashes: counts stay exact

use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::gates::Gates;
use api::views::{
    Condition, ContainerStatusView, ContainerTerminatedView, JobView, MetaView, OwnerRef, PodPhase, PodView,
    UncountedPodsView, View,
};
use serde_json::{Value, json};

use super::Config;
use super::job_params::{FAILURES_KEY, IGNORED_FAILURES_KEY, INDEX_KEY, TRACKING_FINALIZER};
use super::next_step::{NextStep, next_step};
use super::observe::{CountedPods, JobSnapshot};
use super::pods::PodSlot;
use super::pods::retries::IndexFailures;
use super::scheduling::owner_chain::{CachedOwnerChain, OwnerChain, OwnerLookup};

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A Job with this spec that started at second 0.
pub(crate) fn job(spec: Value) -> JobBuilder {
    let mut document = json!({
        "metadata": { "name": "train", "namespace": "ns", "uid": "job-uid", "resourceVersion": "7" },
        "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "main" }] } } },
    });
    for (field, value) in spec.as_object().unwrap() {
        document["spec"][field] = value.clone();
    }
    let mut job = JobView::decode(document.to_string().as_bytes()).unwrap();
    job.status.start_time = Some(at(0));
    job.status.uncounted_terminated_pods = Some(UncountedPodsView::default());
    (job.status.ready, job.status.terminating) = (Some(0), Some(0));
    job.status.failed_indexes = job.spec.backoff_limit_per_index.map(|_| String::new());
    JobBuilder(job)
}

pub(crate) struct JobBuilder(pub JobView);

impl JobBuilder {
    pub fn with(mut self, change: impl FnOnce(&mut JobView)) -> Self {
        change(&mut self.0);
        self
    }

    pub fn condition(self, kind: &str, reason: &str) -> Self {
        let condition = Condition {
            kind: kind.to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            ..Condition::default()
        };
        self.with(|job| job.status.conditions.push(condition))
    }

    pub fn uncounted(self, succeeded: &[&str], failed: &[&str]) -> Self {
        let own = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect();
        let uncounted = UncountedPodsView { succeeded: own(succeeded), failed: own(failed) };
        self.with(|job| job.status.uncounted_terminated_pods = Some(uncounted))
    }
}

/// A pending pod of the Job with the tracking finalizer; its uid is its name.
pub(crate) fn pod(name: &str) -> PodBuilder {
    let mut pod = PodView::default();
    pod.metadata.name = name.to_owned();
    pod.metadata.namespace = "ns".to_owned();
    pod.metadata.uid = name.to_owned();
    pod.metadata.finalizers = vec![TRACKING_FINALIZER.to_owned()];
    pod.metadata.owner_references = vec![OwnerRef {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: "train".to_owned(),
        uid: "job-uid".to_owned(),
        controller: true,
        block_owner_deletion: true,
    }];
    PodBuilder(pod)
}

pub(crate) struct PodBuilder(pub PodView);

impl PodBuilder {
    pub fn index(mut self, index: i32) -> Self {
        self.0.metadata.annotations.insert(INDEX_KEY.to_owned(), index.to_string());
        self
    }

    pub fn running(mut self) -> Self {
        self.0.status.phase = PodPhase::Running;
        self
    }

    pub fn succeeded_at(self, second: i64) -> Self {
        self.ended(PodPhase::Succeeded, second)
    }

    pub fn failed_at(self, second: i64) -> Self {
        self.ended(PodPhase::Failed, second)
    }

    pub fn deleting(self) -> Self {
        self.deleted_at(0, 0)
    }

    /// Must be gone at that second; the deletion was requested `grace` seconds earlier.
    pub fn deleted_at(mut self, second: i64, grace: i32) -> Self {
        self.0.metadata.deletion_timestamp = Some(at(second));
        self.0.metadata.deletion_grace_period_seconds = Some(grace);
        self
    }

    pub fn created(mut self, second: i64) -> Self {
        self.0.metadata.creation_timestamp = Some(at(second));
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.metadata.labels.insert(key, value.to_owned());
        self
    }

    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0.metadata.annotations.insert(key, value.to_owned());
        self
    }

    /// A pod of an index that has failed this often before.
    pub fn failed_before(self, failed: i32, ignored: i32) -> Self {
        let pod = self.annotation(FAILURES_KEY, &failed.to_string());
        if ignored == 0 { pod } else { pod.annotation(IGNORED_FAILURES_KEY, &ignored.to_string()) }
    }

    pub fn namespace(mut self, namespace: &str) -> Self {
        self.0.metadata.namespace = namespace.to_owned();
        self
    }

    pub fn uncontrolled(mut self) -> Self {
        self.0.metadata.owner_references.clear();
        self
    }

    pub fn condition(self, kind: &str, status: &str) -> Self {
        self.condition_at(kind, status, 0)
    }

    /// With a true `DisruptionTarget` for this reason.
    pub fn disrupted(self, reason: &str) -> Self {
        let mut pod = self.condition("DisruptionTarget", "True");
        pod.0.status.conditions.last_mut().unwrap().reason = reason.to_owned();
        pod
    }

    pub fn condition_at(mut self, kind: &str, status: &str, second: i64) -> Self {
        self.0.status.conditions.push(Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(at(second)),
            ..Condition::default()
        });
        self
    }

    /// Failed, with this container.
    pub fn exited(self, container: &str, code: i32) -> Self {
        self.terminated(container, code, 1)
    }

    pub fn terminated(mut self, container: &str, code: i32, second: i64) -> Self {
        self.0.status.phase = PodPhase::Failed;
        self.0.status.container_statuses.push(terminated(container, code, second));
        self
    }

    pub fn init_exited(self, container: &str, code: i32) -> Self {
        self.init_exited_at(container, code, 1)
    }

    pub fn init_exited_at(mut self, container: &str, code: i32, second: i64) -> Self {
        self.0.status.phase = PodPhase::Failed;
        self.0.status.init_container_statuses.push(terminated(container, code, second));
        self
    }

    pub fn still_running(mut self, container: &str) -> Self {
        let status = ContainerStatusView { name: container.to_owned(), ..ContainerStatusView::default() };
        self.0.status.container_statuses.push(status);
        self
    }

    pub fn without_finalizer(mut self) -> Self {
        self.0.metadata.finalizers.clear();
        self
    }

    pub fn build(self) -> Arc<PodView> {
        Arc::new(self.0)
    }

    fn ended(mut self, phase: PodPhase, second: i64) -> Self {
        let code = i32::from(phase == PodPhase::Failed);
        self.0.status.container_statuses = vec![terminated("main", code, second)];
        self.0.status.phase = phase;
        self
    }
}

fn terminated(container: &str, code: i32, second: i64) -> ContainerStatusView {
    let mut status = ContainerStatusView { name: container.to_owned(), ..ContainerStatusView::default() };
    status.state.terminated = Some(ContainerTerminatedView { exit_code: code, finished_at: Some(at(second)) });
    status
}

pub(crate) fn observed(job: JobBuilder, pods: Vec<PodBuilder>, now: i64) -> JobSnapshot {
    // The parent has no owner.
    let owner_chain = job.0.metadata.controller().map(|parent| {
        let mut chain = OwnerChain::from(parent.clone());
        chain.record_lookup(OwnerLookup::Found(Box::new(MetaView { uid: parent.uid.clone(), ..MetaView::default() })));
        Arc::new(CachedOwnerChain { chain, lookups: 1, looked_up_at: at(now) })
    });
    JobSnapshot {
        job: Arc::new(job.0),
        pods: pods.into_iter().map(PodBuilder::build).collect(),
        counted_pods: CountedPods::default(),
        named_group: None,
        to_release: Vec::new(),
        to_adopt: Vec::new(),
        workloads: Vec::new(),
        owner_chain,
        pod_groups: Vec::new(),
        namespace_label: None,
        now: at(now),
        blocked: false,
        serves_groups: true,
    }
}

/// Without scheduling objects, which have tests of their own.
pub(crate) fn plain_step(observed: &JobSnapshot) -> NextStep {
    plain_step_with(observed, &Config::default())
}

/// The same with other settings.
pub(crate) fn plain_step_with(observed: &JobSnapshot, config: &Config) -> NextStep {
    let mut observed = observed.clone();
    let mut job = (*observed.job).clone();
    job.spec.template.scheduling_group = Some("from-template".to_owned());
    observed.job = Arc::new(job);
    next_step(&observed, &Gates::default(), config).unwrap()
}

/// Checks the step in each case: name, Job, pods, second, step.
pub(crate) fn assert_steps(rows: Vec<(&str, JobBuilder, Vec<PodBuilder>, i64, &str)>) {
    for (case, job, pods, now, want) in rows {
        assert_eq!(step_text(&plain_step(&observed(job, pods, now))), want, "{case}");
    }
}

/// Applies a status write to the snapshot.
pub(crate) fn apply_status(seen: &mut JobSnapshot, step: NextStep) {
    let NextStep::WriteStatus(status, _) = step else { panic!("a status, not {}", step_text(&step)) };
    seen.job = Arc::new(JobView { status: *status, ..(*seen.job).clone() });
}

/// The step in a line of text.
pub(crate) fn step_text(step: &NextStep) -> String {
    let names = |pods: &[Arc<PodView>]| pods.iter().map(|pod| pod.metadata.name.as_str()).collect::<Vec<_>>().join(" ");
    match step {
        NextStep::Release(pods) => format!("release {}", names(pods)),
        NextStep::Adopt(pods) => format!("adopt {}", names(pods)),
        NextStep::DeleteObject(object) => format!("delete {}", object.meta().name),
        NextStep::CreateWorkload(workload) => format!("create workload {}", workload.metadata.name.as_deref().unwrap()),
        NextStep::CreatePodGroup(group) => format!("create group {}", group.metadata.name.as_deref().unwrap()),
        NextStep::SetMinCount(change) => format!("set minCount {}", change.min_count),
        NextStep::SetExpectedCount(change) => format!("expect {}", change.count),
        NextStep::CreatePods(slots, group) => {
            let indexes: Vec<String> = slots.iter().filter_map(slot_text).collect();
            let which = if indexes.is_empty() { slots.len().to_string() } else { format!("[{}]", indexes.join(" ")) };
            format!("create {which}{}", group.as_ref().map(|group| format!(" in {}", group.name)).unwrap_or_default())
        }
        NextStep::DeleteWithoutCounting(pods) => format!("delete uncounted {}", names(pods)),
        NextStep::DeleteAndCount(pods) => format!("delete {}", names(pods)),
        NextStep::WriteStatus(status, events) => {
            let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
            let conditions = status.conditions.iter().filter(|condition| condition.status == "True");
            let conditions: Vec<&str> = conditions.map(|condition| condition.kind.as_str()).collect();
            let reasons: Vec<&str> = events.iter().map(|event| event.reason.as_str()).collect();
            let mut parts = vec![
                format!("active={} succeeded={} failed={}", status.active, status.succeeded, status.failed),
                format!("indexes={}", status.completed_indexes),
                format!("failed-indexes={}", status.failed_indexes.as_deref().unwrap_or_default()),
                format!("uncounted={}/{}", uncounted.succeeded.join("+"), uncounted.failed.join("+")),
                conditions.join("+"),
                reasons.iter().map(|reason| format!("!{reason}")).collect::<Vec<_>>().join(" "),
            ];
            parts.retain(|part| !part.is_empty() && !part.ends_with('=') && part != "uncounted=/");
            format!("status {}", parts.join(" "))
        }
        NextStep::RemoveFinalizers(pods) => format!("untrack {}", names(pods)),
        NextStep::RecordEvent(event) => format!("report {}", event.reason),
        NextStep::Wait(None) => "wait".to_owned(),
        NextStep::Wait(Some(delay)) => format!("wait {}s", Duration::as_secs(delay)),
    }
}

/// The index, with the failures before it: `3`, `3(1)`, `3(1+2)` with two that were ignored.
fn slot_text(slot: &PodSlot) -> Option<String> {
    let index = slot.index?;
    Some(match slot.prior_failures.unwrap_or_default() {
        IndexFailures { counted: 0, ignored: 0 } => index.to_string(),
        IndexFailures { counted, ignored: 0 } => format!("{index}({counted})"),
        IndexFailures { counted, ignored } => format!("{index}({counted}+{ignored})"),
    })
}
