//! Asks the server for the owners above the parents of Jobs, and remembers them.
//!
//! Only for children that find no Workload of their parent. This lives in memory alone: after a restart the server is
//! asked again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Timestamp;
use api::views::{JobView, ObjectKey, OwnerRef};
use runtime::discovery::object_path;
use runtime::failure::message;
use runtime::request::read_meta;
use runtime::{Cache, is_retriable};

use super::Parts;
use super::carry_out::{Failure, warn};
use super::lineage::{Answer, Known, Lineage, name_of, reference};
use super::observe::workloads_of;
use super::scheduling::{ManagementMode, management_mode};
use super::shape::{is_finished, is_managed_by_others};

/// What is known of the parents of Jobs.
#[derive(Debug, Default)]
pub struct Owners(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By parent.
    known: BTreeMap<Parent, Arc<Known>>,
    /// Each owner in them, as Workloads name it, and whose it is.
    below: BTreeSet<(String, Parent)>,
}

/// A parent, by its reference and uid. A uid alone is what a user wrote into a Job, of whatever namespace.
type Parent = (String, String);

impl Owners {
    /// Asks the server if it has to be known who is above the Job's parent, and returns once it is.
    pub async fn settle(&self, parts: &Parts, job: &JobView) -> Result<(), Failure> {
        let Some(parent) = self.unsettled(parts, job) else { return Ok(()) };
        let mut lineage = Lineage::from(parent.clone());
        while let Some(owner) = lineage.asks_for().cloned() {
            let answer = ask(&parts.client, &job.metadata.namespace, &owner).await.map_err(|error| {
                let message = format!("Error reading {}, an owner of this Job: {}", name_of(&owner), message(&error));
                warn(parts, job, "FailedOwnerRead", "Read", &message);
                Failure::ReadOwner(error)
            })?;
            lineage.learn(answer);
        }
        self.remember(&parts.jobs, job, parent, lineage, parts.clock.now());
        Ok(())
    }

    /// What is known of the parent of a Job.
    pub fn known(&self, job: &JobView) -> Option<Arc<Known>> {
        let parent = job.metadata.controller()?;
        self.lock().known.get(&key_of(job, parent)).cloned()
    }

    /// The uids of the parents that have this owner, as Workloads name it.
    pub fn below(&self, owner: &str) -> Vec<String> {
        let state = self.lock();
        let first = (owner.to_owned(), Parent::default());
        let of_it = state.below.range(first..).take_while(|(found, _)| found == owner);
        of_it.map(|(_, (_, uid))| uid.clone()).collect()
    }

    /// A Job is gone or has another parent: what was known of its parent is forgotten, unless another Job has it too.
    pub fn forget(&self, jobs: &Cache<JobView>, job: &JobView) {
        let Some(parent) = job.metadata.controller() else { return };
        let key = key_of(job, parent);
        let mut state = self.lock();
        let Some(known) = state.known.get(&key).cloned() else { return };
        let has_it =
            |other: &Arc<JobView>| other.metadata.controller().is_some_and(|owner| key_of(other, owner) == key);
        if !jobs.by_index(&JobView::BY_CONTROLLER, &parent.uid).iter().any(has_it) {
            state.known.remove(&key);
            state.unlist(&job.metadata.namespace, &known.lineage, &key);
        }
    }

    /// The parent of a Job that has to find a Workload and does not, where the server can tell more than is known.
    fn unsettled<'a>(&self, parts: &Parts, job: &'a JobView) -> Option<&'a OwnerRef> {
        let mode = management_mode(job, &parts.gates, &parts.config.child_owners);
        let is_over = is_finished(job) || job.metadata.is_deleting() || is_managed_by_others(job);
        if mode != ManagementMode::ManagePodGroupOnly || is_over {
            return None;
        }
        let known = self.known(job);
        let is_due = |known: &Known| known.due_in(parts.clock.now(), parts.config.retry).is_zero();
        if known.as_deref().is_some_and(|known| !is_due(known))
            || !workloads_of(parts, job, mode, known.as_deref()).is_empty()
        {
            return None;
        }
        job.metadata.controller()
    }

    fn remember(&self, jobs: &Cache<JobView>, job: &JobView, parent: &OwnerRef, lineage: Lineage, now: Timestamp) {
        let mut state = self.lock();
        // Where the Job has gone meanwhile, or changed hands, the time to forget has passed.
        let is_same = |held: Arc<JobView>| held.metadata.controller() == Some(parent);
        if !jobs.get(&job.metadata.key()).is_some_and(is_same) {
            return;
        }
        let (namespace, key) = (&job.metadata.namespace, key_of(job, parent));
        let before = state.known.remove(&key);
        before.iter().for_each(|before| state.unlist(namespace, &before.lineage, &key));
        state.below.extend(lineage.owners().iter().map(|owner| (reference(namespace, owner), key.clone())));
        let asked = before.map_or(0, |before| before.asked).saturating_add(1);
        state.known.insert(key, Arc::new(Known { lineage, asked, at: now }));
    }

    // Held for the time of a look, never across an await.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn unlist(&mut self, namespace: &str, lineage: &Lineage, key: &Parent) {
        for owner in lineage.owners() {
            self.below.remove(&(reference(namespace, owner), key.clone()));
        }
    }
}

fn key_of(job: &JobView, parent: &OwnerRef) -> Parent {
    (reference(&job.metadata.namespace, parent), parent.uid.clone())
}

/// What the server says of an owner. An error is one that passes by itself.
async fn ask(client: &kube::Client, namespace: &str, owner: &OwnerRef) -> Result<Answer, kube::Error> {
    let answer = async {
        let OwnerRef { api_version, kind, name, .. } = owner;
        match object_path(client, api_version, kind, &ObjectKey::new(namespace, name)).await? {
            None => Ok(Answer::Unreadable(format!("the API server serves no {kind} in {api_version}"))),
            Some(path) => {
                Ok(read_meta(client, &path).await?.map_or(Answer::Absent, |meta| Answer::Found(Box::new(meta))))
            }
        }
    };
    match answer.await {
        Err(error) if !is_retriable(&error) => Ok(Answer::Unreadable(message(&error))),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use api::Revision;
    use api::views::Meta;
    use serde_json::json;

    use super::*;
    use crate::job::tests::{at, job};

    /// A Job of `Set a`, whose uid is `set-uid`.
    fn child(namespace: &str, name: &str) -> JobView {
        let mut child = job(json!({})).0;
        let owner = OwnerRef { kind: "Set".to_owned(), name: "a".to_owned(), controller: true, ..OwnerRef::default() };
        let owner = OwnerRef { api_version: "example.com/v1".to_owned(), uid: "set-uid".to_owned(), ..owner };
        child.metadata.owner_references = vec![owner];
        (child.metadata.namespace, child.metadata.name) = (namespace.to_owned(), name.to_owned());
        child
    }

    /// `Set a`, and above it a `Train` of this name.
    fn lineage(of: &JobView, above: &str) -> Lineage {
        let parent = of.metadata.controller().cloned().unwrap_or_default();
        let above =
            OwnerRef { kind: "Train".to_owned(), name: above.to_owned(), controller: true, ..OwnerRef::default() };
        let above = OwnerRef { api_version: "example.com/v1".to_owned(), uid: above.name.clone(), ..above };
        let mut lineage = Lineage::from(parent.clone());
        let meta = Meta { uid: parent.uid, owner_references: vec![above], ..Meta::default() };
        lineage.learn(Answer::Found(Box::new(meta)));
        lineage
    }

    fn holding(jobs: &[&JobView]) -> Cache<JobView> {
        let cache = Cache::new(&[JobView::BY_CONTROLLER]);
        cache.replace(jobs.iter().map(|job| (*job).clone()).collect(), &BTreeSet::new(), Revision(1));
        cache
    }

    fn remember(owners: &Owners, jobs: &Cache<JobView>, job: &JobView, above: &str) {
        let parent = job.metadata.controller().cloned().unwrap_or_default();
        owners.remember(jobs, job, &parent, lineage(job, above), at(0));
    }

    #[test]
    fn a_parent_is_forgotten_with_its_last_job() {
        let (one, other) = (child("ns", "one"), child("ns", "other"));
        let owners = Owners::default();
        remember(&owners, &holding(&[&one, &other]), &one, "b");
        assert_eq!(owners.below("ns/example.com/Train/b"), ["set-uid"]);
        assert!(owners.known(&other).is_some(), "its siblings have the same owners");
        owners.forget(&holding(&[&other]), &one);
        assert!(owners.known(&other).is_some());
        owners.forget(&holding(&[]), &other);
        assert!(owners.known(&other).is_none() && owners.lock().below.is_empty());
        remember(&owners, &holding(&[]), &other, "b");
        assert!(owners.known(&other).is_none(), "nobody would forget what is learned after the Job has gone");
    }

    #[test]
    fn what_is_learned_anew_takes_the_place_of_what_was_known() {
        let one = child("ns", "one");
        let (owners, jobs) = (Owners::default(), holding(&[&one]));
        remember(&owners, &jobs, &one, "b");
        remember(&owners, &jobs, &one, "c");
        assert_eq!(owners.known(&one).map(|known| known.asked), Some(2));
        let below = |owner: &str| owners.below(owner).len();
        assert_eq!((below("ns/example.com/Train/b"), below("ns/example.com/Train/c")), (0, 1));
    }

    // A uid in an owner reference is what somebody wrote there.
    #[test]
    fn what_a_job_says_of_its_parent_holds_in_its_own_namespace() {
        let (here, there) = (child("ns", "one"), child("elsewhere", "one"));
        let (owners, jobs) = (Owners::default(), holding(&[&here, &there]));
        remember(&owners, &jobs, &there, "b");
        assert!(owners.known(&here).is_none());
        assert!(owners.below("ns/example.com/Train/b").is_empty());
    }
}
