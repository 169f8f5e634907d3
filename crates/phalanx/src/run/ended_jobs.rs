//! Jobs that ended and were then deleted, such as those with `ttlSecondsAfterFinished: 0`. A run counts them too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::views::{Condition, JobView, MetaView, ObjectKey, PodGroupView, PodView};
use controlplane::Caches;
use runtime::Cursor;

use crate::run::progress::ClusterSnapshot;

/// Watches Jobs, their PodGroups and pods, and keeps the last state of objects that are deleted after their Job has ended.
pub struct EndedJobs {
    job_changes: Cursor<JobView>,
    group_changes: Cursor<PodGroupView>,
    pod_changes: Cursor<PodView>,
    deleted_jobs: BTreeMap<String, Arc<JobView>>,
    deleted_groups: BTreeMap<ObjectKey, Arc<PodGroupView>>,
    /// Pods of Jobs that ended by themselves, by uid. Pods that the Job controller stopped are not included.
    ended_pods: BTreeMap<String, Arc<PodView>>,
}

impl EndedJobs {
    /// Watches from now on.
    pub fn follow(caches: &Caches) -> EndedJobs {
        EndedJobs {
            job_changes: caches.get().subscribe(),
            group_changes: caches.get().subscribe(),
            pod_changes: caches.get().subscribe(),
            deleted_jobs: BTreeMap::new(),
            deleted_groups: BTreeMap::new(),
            ended_pods: BTreeMap::new(),
        }
    }

    /// Adds the deleted objects to `snapshot`, which was read from the caches before.
    pub fn add_to(&mut self, snapshot: &mut ClusterSnapshot) {
        self.read_changes();
        let is_ended = |job: &&Arc<JobView>| has_ended(job);
        let live: BTreeSet<&str> = snapshot.jobs.iter().map(|job| job.metadata.uid.as_str()).collect();
        let deleted = self.deleted_jobs.values().filter(|job| !live.contains(job.metadata.uid.as_str()));
        let deleted: Vec<Arc<JobView>> = deleted.cloned().collect();
        // The pods of a Job are deleted before the Job.
        let terminating = snapshot.jobs.iter().filter(|job| job.metadata.deletion_timestamp.is_some()).filter(is_ended);
        let owners: BTreeSet<String> = terminating.chain(&deleted).map(|job| job.metadata.uid.clone()).collect();
        if owners.is_empty() {
            return;
        }
        snapshot.jobs.extend(deleted);
        snapshot.jobs.sort_by_key(|job| job.metadata.key());
        let live: BTreeSet<String> = snapshot.pods.iter().map(|pod| pod.metadata.uid.clone()).collect();
        let of_ended = |pod: &&Arc<PodView>| {
            let of_owner = job_uid(&pod.metadata).is_some_and(|uid| owners.contains(uid));
            of_owner && !live.contains(&pod.metadata.uid)
        };
        snapshot.pods.extend(self.ended_pods.values().filter(of_ended).cloned());
        snapshot.pods.sort_by_key(|pod| pod.metadata.key());
        let live: BTreeSet<ObjectKey> = snapshot.pod_groups.iter().map(|group| group.metadata.key()).collect();
        let groups = self.deleted_groups.iter().filter(|(key, _)| !live.contains(key));
        snapshot.pod_groups.extend(groups.map(|(_, group)| group.clone()));
    }

    fn read_changes(&mut self) {
        while let Some(change) = self.job_changes.try_next() {
            if change.new.is_none() && has_ended(change.latest()) {
                self.deleted_jobs.insert(change.latest().metadata.uid.clone(), change.latest().clone());
            }
        }
        while let Some(change) = self.group_changes.try_next() {
            // A group without a controller would count as separate work.
            if change.new.is_none() && change.latest().metadata.controller().is_some() {
                self.deleted_groups.insert(change.latest().metadata.key(), change.latest().clone());
            }
        }
        while let Some(change) = self.pod_changes.try_next() {
            let pod = change.latest();
            let ended_by_itself = pod.is_finished() && pod.metadata.deletion_timestamp.is_none();
            if ended_by_itself && job_uid(&pod.metadata).is_some() {
                self.ended_pods.insert(pod.metadata.uid.clone(), pod.clone());
            }
        }
    }
}

fn has_ended(job: &JobView) -> bool {
    ["Complete", "Failed"].iter().any(|end| Condition::is_true(&job.status.conditions, end))
}

/// The uid of the Job that controls the object.
fn job_uid(metadata: &MetaView) -> Option<&str> {
    metadata.controller().filter(|owner| owner.kind == "Job").map(|owner| owner.uid.as_str())
}
