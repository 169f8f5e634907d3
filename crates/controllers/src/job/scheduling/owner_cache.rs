//! Reads the owners above the parents of Jobs from the server, and caches them.
//!
//! Only for children whose parent has no Workload. The cache is only in memory: after a restart the server is read
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Timestamp;
use api::views::{JobView, ObjectKey, OwnerRef};
use runtime::discovery::object_path;
use runtime::failure::message;
use runtime::request::read_meta;
use runtime::{Cache, is_retriable};

use super::objects::{ManagementMode, management_mode};
use super::owner_chain::{CachedOwnerChain, OwnerChain, OwnerLookup, controller_ref, name_of};
use crate::job::JobContext;
use crate::job::execute::{StepError, record_warning};
use crate::job::job_params::{is_finished, is_managed_by_others};
use crate::job::observe::workloads_of;

/// What is known of the parents of Jobs.
#[derive(Debug, Default)]
pub struct OwnerCache(Mutex<OwnerCacheState>);

#[derive(Debug, Default)]
struct OwnerCacheState {
    /// By parent.
    chains: BTreeMap<ParentKey, Arc<CachedOwnerChain>>,
    /// Each owner in them, as Workloads name it, and whose it is.
    parents_by_owner: BTreeSet<(String, ParentKey)>,
}

/// A parent, by its reference and uid. A uid alone is what a user wrote into a Job, of whatever namespace.
type ParentKey = (String, String);

impl OwnerCache {
    /// Reads the owners above the Job's parent if they are needed and not known.
    pub async fn refresh(&self, ctx: &JobContext, job: &JobView) -> Result<(), StepError> {
        let Some(parent) = self.parent_to_look_up(ctx, job) else { return Ok(()) };
        let mut lineage = OwnerChain::from(parent.clone());
        while let Some(owner) = lineage.next_lookup().cloned() {
            let answer = look_up_owner(&ctx.client, &job.metadata.namespace, &owner).await.map_err(|error| {
                let message = format!("Error reading {}, an owner of this Job: {}", name_of(&owner), message(&error));
                record_warning(ctx, job, "FailedOwnerRead", "Read", &message);
                StepError::ReadOwner(error)
            })?;
            lineage.record_lookup(answer);
        }
        self.insert(&ctx.jobs, job, parent, lineage, ctx.clock.now());
        Ok(())
    }

    /// What is known of the parent of a Job.
    pub fn get(&self, job: &JobView) -> Option<Arc<CachedOwnerChain>> {
        let parent = job.metadata.controller()?;
        self.lock().chains.get(&key_of(job, parent)).cloned()
    }

    /// The uids of the parents that have this owner, as Workloads name it.
    pub fn parents_below(&self, owner: &str) -> Vec<String> {
        let state = self.lock();
        let first = (owner.to_owned(), ParentKey::default());
        let of_it = state.parents_by_owner.range(first..).take_while(|(found, _)| found == owner);
        of_it.map(|(_, (_, uid))| uid.clone()).collect()
    }

    /// A Job is gone or has another parent: what was known of its parent is forgotten, unless another Job has it too.
    pub fn forget(&self, jobs: &Cache<JobView>, job: &JobView) {
        let Some(parent) = job.metadata.controller() else { return };
        let key = key_of(job, parent);
        let mut state = self.lock();
        let Some(known) = state.chains.get(&key).cloned() else { return };
        let has_it =
            |other: &Arc<JobView>| other.metadata.controller().is_some_and(|owner| key_of(other, owner) == key);
        if !jobs.by_index(&JobView::BY_CONTROLLER, &parent.uid).iter().any(has_it) {
            state.chains.remove(&key);
            state.remove_from_index(&job.metadata.namespace, &known.chain, &key);
        }
    }

    /// The parent of a Job that has to find a Workload and does not, where the server can tell more than is known.
    fn parent_to_look_up<'a>(&self, ctx: &JobContext, job: &'a JobView) -> Option<&'a OwnerRef> {
        let mode = management_mode(job, &ctx.gates, &ctx.config.child_owners);
        let is_over = is_finished(job) || job.metadata.is_deleting() || is_managed_by_others(job);
        if mode != ManagementMode::ManagePodGroupOnly || is_over {
            return None;
        }
        let known = self.get(job);
        let is_due = |known: &CachedOwnerChain| known.due_in(ctx.clock.now(), ctx.config.retry).is_zero();
        if known.as_deref().is_some_and(|known| !is_due(known))
            || !workloads_of(ctx, job, mode, known.as_deref()).is_empty()
        {
            return None;
        }
        job.metadata.controller()
    }

    fn insert(&self, jobs: &Cache<JobView>, job: &JobView, parent: &OwnerRef, chain: OwnerChain, now: Timestamp) {
        let mut state = self.lock();
        // Where the Job has gone meanwhile, or changed hands, the time to forget has passed.
        let is_same = |held: Arc<JobView>| held.metadata.controller() == Some(parent);
        if !jobs.get(&job.metadata.key()).is_some_and(is_same) {
            return;
        }
        let (namespace, key) = (&job.metadata.namespace, key_of(job, parent));
        let before = state.chains.remove(&key);
        before.iter().for_each(|before| state.remove_from_index(namespace, &before.chain, &key));
        state
            .parents_by_owner
            .extend(chain.owners().iter().map(|owner| (controller_ref(namespace, owner), key.clone())));
        let asked = before.map_or(0, |before| before.lookups).saturating_add(1);
        state.chains.insert(key, Arc::new(CachedOwnerChain { chain, lookups: asked, looked_up_at: now }));
    }

    // Held for the time of a look, never across an await.
    fn lock(&self) -> MutexGuard<'_, OwnerCacheState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnerCacheState {
    fn remove_from_index(&mut self, namespace: &str, chain: &OwnerChain, key: &ParentKey) {
        for owner in chain.owners() {
            self.parents_by_owner.remove(&(controller_ref(namespace, owner), key.clone()));
        }
    }
}

fn key_of(job: &JobView, parent: &OwnerRef) -> ParentKey {
    (controller_ref(&job.metadata.namespace, parent), parent.uid.clone())
}

/// Reads an owner from the server. An error is one that is worth a retry.
async fn look_up_owner(client: &kube::Client, namespace: &str, owner: &OwnerRef) -> Result<OwnerLookup, kube::Error> {
    let answer = async {
        let OwnerRef { api_version, kind, name, .. } = owner;
        match object_path(client, api_version, kind, &ObjectKey::new(namespace, name)).await? {
            None => Ok(OwnerLookup::Unreadable(format!("the API server serves no {kind} in {api_version}"))),
            Some(path) => Ok(read_meta(client, &path)
                .await?
                .map_or(OwnerLookup::Absent, |meta| OwnerLookup::Found(Box::new(meta)))),
        }
    };
    match answer.await {
        Err(error) if !is_retriable(&error) => Ok(OwnerLookup::Unreadable(message(&error))),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use api::Revision;
    use api::views::MetaView;
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
    fn lineage(of: &JobView, above: &str) -> OwnerChain {
        let parent = of.metadata.controller().cloned().unwrap_or_default();
        let above =
            OwnerRef { kind: "Train".to_owned(), name: above.to_owned(), controller: true, ..OwnerRef::default() };
        let above = OwnerRef { api_version: "example.com/v1".to_owned(), uid: above.name.clone(), ..above };
        let mut lineage = OwnerChain::from(parent.clone());
        let meta = MetaView { uid: parent.uid, owner_references: vec![above], ..MetaView::default() };
        lineage.record_lookup(OwnerLookup::Found(Box::new(meta)));
        lineage
    }

    fn cache_of(jobs: &[&JobView]) -> Cache<JobView> {
        let cache = Cache::new(&[JobView::BY_CONTROLLER]);
        cache.replace(jobs.iter().map(|job| (*job).clone()).collect(), &BTreeSet::new(), Revision(1));
        cache
    }

    fn remember(owners: &OwnerCache, jobs: &Cache<JobView>, job: &JobView, above: &str) {
        let parent = job.metadata.controller().cloned().unwrap_or_default();
        owners.insert(jobs, job, &parent, lineage(job, above), at(0));
    }

    #[test]
    fn a_parent_is_forgotten_with_its_last_job() {
        let (one, other) = (child("ns", "one"), child("ns", "other"));
        let owners = OwnerCache::default();
        remember(&owners, &cache_of(&[&one, &other]), &one, "b");
        assert_eq!(owners.parents_below("ns/example.com/Train/b"), ["set-uid"]);
        assert!(owners.get(&other).is_some(), "its siblings have the same owners");
        owners.forget(&cache_of(&[&other]), &one);
        assert!(owners.get(&other).is_some());
        owners.forget(&cache_of(&[]), &other);
        assert!(owners.get(&other).is_none() && owners.lock().parents_by_owner.is_empty());
        remember(&owners, &cache_of(&[]), &other, "b");
        assert!(owners.get(&other).is_none(), "nobody would forget what is learned after the Job has gone");
    }

    #[test]
    fn what_is_learned_anew_takes_the_place_of_what_was_known() {
        let one = child("ns", "one");
        let (owners, jobs) = (OwnerCache::default(), cache_of(&[&one]));
        remember(&owners, &jobs, &one, "b");
        remember(&owners, &jobs, &one, "c");
        assert_eq!(owners.get(&one).map(|known| known.lookups), Some(2));
        let below = |owner: &str| owners.parents_below(owner).len();
        assert_eq!((below("ns/example.com/Train/b"), below("ns/example.com/Train/c")), (0, 1));
    }

    // A uid in an owner reference is what somebody wrote there.
    #[test]
    fn what_a_job_says_of_its_parent_holds_in_its_own_namespace() {
        let (here, there) = (child("ns", "one"), child("elsewhere", "one"));
        let (owners, jobs) = (OwnerCache::default(), cache_of(&[&here, &there]));
        remember(&owners, &jobs, &there, "b");
        assert!(owners.get(&here).is_none());
        assert!(owners.parents_below("ns/example.com/Train/b").is_empty());
    }
}
