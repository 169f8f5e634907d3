//! A cluster in memory whose controller crashes at any moment: each end is counted once.

use std::collections::{BTreeMap, BTreeSet};

use api::Random;
use serde_json::json;

use super::*;
use crate::job::job_params::{JobParams, has_tracking_finalizer, is_active, is_finished};
use crate::job::policy::pod_outcome::finished_at;
use crate::job::status::indexes::Indexes;

struct CrashingCluster {
    job: JobView,
    pods: BTreeMap<String, PodView>,
    /// Uids of pods that ended, or were deleted, with the tracking finalizer: each must be counted once.
    to_count: BTreeSet<String>,
    pods_created: u32,
    second: i64,
    random: Random,
    history: Vec<String>,
}

impl CrashingCluster {
    fn new(job: JobView, seed: u64) -> CrashingCluster {
        let random = Random::seeded(seed);
        let (pods, to_count) = (BTreeMap::new(), BTreeSet::new());
        CrashingCluster {
            job,
            pods,
            to_count,
            pods_created: 0,
            second: 0,
            random,
            history: vec![format!("seed {seed}")],
        }
    }

    fn chance(&self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    /// One step of the controller. It may crash within a batch, or before its single write.
    fn reconcile_once(&mut self) {
        // As in the cache, counted pods are separate.
        let is_counted = |pod: &PodView| pod.status.phase == PodPhase::Succeeded && !has_tracking_finalizer(pod);
        let (counted, pods): (Vec<_>, Vec<_>) = self.pods.values().partition(|pod| is_counted(pod));
        let last_finished_at = counted.iter().map(|pod| finished_at(pod)).max();
        let counted_pods = CountedPods { count: counted.len(), last_finished_at };
        let pods = pods.into_iter().cloned().map(Arc::new).collect();
        let (workloads, pod_groups) = (Vec::new(), Vec::new());
        let observed = JobSnapshot {
            job: Arc::new(self.job.clone()),
            pods,
            counted_pods,
            to_release: Vec::new(),
            to_adopt: Vec::new(),
            workloads,
            owner_chain: None,
            pod_groups,
            named_group: None,
            namespace_label: None,
            now: at(self.second),
            blocked: false,
            serves_groups: true,
        };
        let step = plain_step(&observed);
        self.history.push(step_text(&step));
        let crashes = self.chance(20);
        match step {
            NextStep::CreatePods(slots, _) => {
                slots[..self.writes_before_crash(slots.len(), crashes)].iter().for_each(|slot| {
                    self.pods_created += 1;
                    let new = pod(&format!("p{:04}", self.pods_created));
                    let new = slot.index.into_iter().fold(new, PodBuilder::index);
                    let new = slot
                        .prior_failures
                        .into_iter()
                        .fold(new, |new, failures| new.failed_before(failures.counted, failures.ignored));
                    self.pods.insert(new.0.metadata.name.clone(), new.0);
                })
            }
            NextStep::DeleteWithoutCounting(pods) => {
                let released = self.writes_before_crash(pods.len(), crashes);
                pods[..released].iter().for_each(|pod| self.remove_finalizer(&pod.metadata.name));
                let deleted = if released == pods.len() { self.writes_before_crash(released, crashes) } else { 0 };
                pods[..deleted].iter().for_each(|pod| self.delete(&pod.metadata.name));
            }
            NextStep::DeleteAndCount(pods) => {
                pods[..self.writes_before_crash(pods.len(), crashes)]
                    .iter()
                    .for_each(|pod| self.delete(&pod.metadata.name));
            }
            NextStep::RemoveFinalizers(pods) => {
                pods[..self.writes_before_crash(pods.len(), crashes)]
                    .iter()
                    .for_each(|pod| self.remove_finalizer(&pod.metadata.name));
            }
            NextStep::WriteStatus(status, _) if !crashes => {
                let counts = |job: &JobView| (job.status.succeeded, job.status.failed);
                let before = counts(&self.job);
                self.job.status = *status;
                let after = counts(&self.job);
                assert!(before.0 <= after.0 && before.1 <= after.1, "counts decreased: {:#?}", self.history);
            }
            _ => {}
        }
    }

    /// How many writes of a batch are done; fewer than all if the controller crashes.
    fn writes_before_crash(&self, all: usize, crashes: bool) -> usize {
        if crashes { self.random.below(all as u64 + 1) as usize } else { all }
    }

    /// One pod ends or is deleted.
    fn change_one_pod(&mut self, percent_failed: u64, percent_deleted: u64) {
        let running: Vec<String> =
            self.pods.values().filter(|pod| !pod.is_finished()).map(|pod| pod.metadata.name.clone()).collect();
        if running.is_empty() {
            return;
        }
        let name = &running[self.random.below(running.len() as u64) as usize];
        if self.chance(percent_deleted) && is_active(&self.pods[name]) {
            self.history.push(format!("{name} is deleted"));
            return self.delete(name);
        }
        let phase = if self.chance(percent_failed) { PodPhase::Failed } else { PodPhase::Succeeded };
        self.history.push(format!("{name} ends {phase:?}"));
        let pod = self.pods.get_mut(name).unwrap();
        pod.status.phase = phase;
        if has_tracking_finalizer(pod) {
            self.to_count.insert(name.clone());
        }
        self.remove_if_finished(name);
    }

    fn delete(&mut self, name: &str) {
        let Some(pod) = self.pods.get_mut(name) else { return };
        pod.metadata.deletion_timestamp = Some(at(self.second));
        if has_tracking_finalizer(pod) {
            self.to_count.insert(name.to_owned());
        }
    }

    fn remove_finalizer(&mut self, name: &str) {
        self.pods.get_mut(name).into_iter().for_each(|pod| pod.metadata.finalizers.clear());
        self.remove_if_finished(name);
    }

    /// Removes a pod that ended, is being deleted and has no finalizer.
    fn remove_if_finished(&mut self, name: &str) {
        if self
            .pods
            .get(name)
            .is_some_and(|pod| pod.is_finished() && pod.metadata.is_deleting() && !has_tracking_finalizer(pod))
        {
            self.pods.remove(name);
        }
    }

    fn run(mut self, percent_failed: u64, percent_deleted: u64) -> CrashingCluster {
        for _ in 0..2_000 {
            if is_finished(&self.job) {
                return self;
            }
            self.second += 700;
            if self.chance(40) { self.change_one_pod(percent_failed, percent_deleted) } else { self.reconcile_once() }
        }
        panic!("never finished: {:#?}", self.history)
    }
}

#[test]
fn counts_are_exact_whenever_pods_end_and_the_controller_crashes() {
    for seed in 0..300 {
        let spec = json!({ "completions": 7, "parallelism": 4, "backoffLimit": 10_000 });
        let cluster = CrashingCluster::new(job(spec).0, seed).run(30, 20);
        let status = &cluster.job.status;
        assert_eq!((status.succeeded + status.failed) as usize, cluster.to_count.len(), "{:#?}", cluster.history);
        assert!(status.succeeded >= 7, "{:#?}", cluster.history);
        assert!(!cluster.pods.values().any(has_tracking_finalizer), "{:#?}", cluster.history);
    }
}

#[test]
fn exactly_the_completions_succeed_when_no_pod_is_deleted() {
    for seed in 0..200 {
        let spec = json!({ "completions": 7, "parallelism": 4, "backoffLimit": 10_000 });
        let cluster = CrashingCluster::new(job(spec).0, seed).run(30, 0);
        assert_eq!(cluster.job.status.succeeded, 7, "{:#?}", cluster.history);
    }
}

#[test]
fn every_index_succeeds_and_every_failure_counts() {
    for seed in 0..200 {
        let spec = json!({ "completionMode": "Indexed", "completions": 6, "parallelism": 3, "backoffLimit": 10_000 });
        let cluster = CrashingCluster::new(job(spec).0, seed).run(30, 0);
        let status = &cluster.job.status;
        assert_eq!((status.succeeded, status.completed_indexes.as_str()), (6, "0-5"), "{:#?}", cluster.history);
        assert_eq!(status.failed as usize, cluster.to_count.len() - 6, "{:#?}", cluster.history);
    }
}

#[test]
fn an_indexed_job_ends_also_when_its_pods_are_deleted() {
    for policy in ["TerminatingOrFailed", "Failed"] {
        for seed in 0..200 {
            let spec = json!({
                "completionMode": "Indexed", "completions": 6, "parallelism": 3, "backoffLimit": 10_000,
                "podReplacementPolicy": policy,
            });
            let cluster = CrashingCluster::new(job(spec).0, seed).run(30, 30);
            assert_eq!(cluster.job.status.completed_indexes, "0-5", "{policy}: {:#?}", cluster.history);
            assert!(!cluster.pods.values().any(has_tracking_finalizer), "{policy}: {:#?}", cluster.history);
        }
    }
}

#[test]
fn a_failing_job_counts_all_its_pods_and_leaves_none_behind() {
    for seed in 0..200 {
        let spec = json!({ "completions": 9, "parallelism": 4, "backoffLimit": 3 });
        let cluster = CrashingCluster::new(job(spec).0, seed).run(80, 0);
        let status = &cluster.job.status;
        assert_eq!((status.succeeded + status.failed) as usize, cluster.to_count.len(), "{:#?}", cluster.history);
        assert!(
            !cluster.pods.values().any(|pod| has_tracking_finalizer(pod) || is_active(pod)),
            "{:#?}",
            cluster.history
        );
        assert!(Condition::is_true(&status.conditions, "Complete") || status.failed > 3, "{:#?}", cluster.history);
    }
}

#[test]
fn an_index_fails_after_exactly_its_limit_whenever_the_controller_crashes() {
    for seed in 0..200 {
        let spec = json!({
            "completionMode": "Indexed", "completions": 6, "parallelism": 3, "backoffLimitPerIndex": 2,
            "podReplacementPolicy": "Failed",
        });
        let cluster = CrashingCluster::new(job(spec).0, seed).run(60, 0);
        let (status, params) = (&cluster.job.status, JobParams::of(&cluster.job, &Config::default()).unwrap());
        let failures = |index: i32| {
            let failed = |pod: &&PodView| pod.status.phase == PodPhase::Failed && params.index_of(pod) == Some(index);
            cluster.pods.values().filter(failed).count()
        };
        let completed = Indexes::parse(&status.completed_indexes, 6);
        let failed_indexes = Indexes::parse(status.failed_indexes.as_deref().unwrap(), 6);
        for index in 0..6 {
            let (succeeded, failed) = (completed.contains(index), failed_indexes.contains(index));
            assert!(succeeded != failed, "index {index}: {:#?}", cluster.history);
            assert_eq!(failures(index) > 2, failed, "index {index}: {:#?}", cluster.history);
            assert!(failures(index) <= 3, "index {index} was retried too often: {:#?}", cluster.history);
        }
        let all: usize = (0..6).map(failures).sum();
        assert_eq!(status.failed as usize, all, "{:#?}", cluster.history);
        assert_eq!(
            Condition::is_true(&status.conditions, "Failed"),
            !failed_indexes.is_empty(),
            "{:#?}",
            cluster.history
        );
    }
}
