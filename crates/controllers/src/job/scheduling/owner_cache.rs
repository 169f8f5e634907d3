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

/// The owners above the parents of Jobs.
#[derive(Debug, Default)]
pub struct OwnerCache(Mutex<OwnerCacheState>);

#[derive(Debug, Default)]
struct OwnerCacheState {
    /// By parent.
    chains: BTreeMap<ParentKey, Arc<CachedOwnerChain>>,
    /// Pairs of an owner, in the form of the index, and a parent below it.
    parents_by_owner: BTreeSet<(String, ParentKey)>,
}

/// A parent, by its reference and uid. A uid alone is not enough: a user can write any uid into a Job of any namespace.
type ParentKey = (String, String);

impl OwnerCache {
    /// Reads the owners above the Job's parent if they are needed and not known.
    pub async fn refresh(&self, ctx: &JobContext, job: &JobView) -> Result<(), StepError> {
        let Some(parent) = self.parent_to_look_up(ctx, job) else { return Ok(()) };
        let mut chain = OwnerChain::from(parent.clone());
        while let Some(owner) = chain.next_lookup().cloned() {
            let lookup = look_up_owner(&ctx.client, &job.metadata.namespace, &owner).await.map_err(|error| {
                let message = format!("Error reading {}, an owner of this Job: {}", name_of(&owner), message(&error));
                record_warning(ctx, job, "FailedOwnerRead", "Read", &message);
                StepError::ReadOwner(error)
            })?;
            chain.record_lookup(lookup);
        }
        self.insert(&ctx.jobs, job, parent, chain, ctx.clock.now());
        Ok(())
    }

    /// The cached owners above the parent of a Job.
    pub fn get(&self, job: &JobView) -> Option<Arc<CachedOwnerChain>> {
        let parent = job.metadata.controller()?;
        self.lock().chains.get(&key_of(job, parent)).cloned()
    }

    /// The uids of the parents below this owner, which is in the form of the index.
    pub fn parents_below(&self, owner: &str) -> Vec<String> {
        let state = self.lock();
        let first = (owner.to_owned(), ParentKey::default());
        let parents = state.parents_by_owner.range(first..).take_while(|(found, _)| found == owner);
        parents.map(|(_, (_, uid))| uid.clone()).collect()
    }

    /// A Job is gone or has another parent: drops the entry of its parent, unless another Job has the same parent.
    pub fn forget(&self, jobs: &Cache<JobView>, job: &JobView) {
        let Some(parent) = job.metadata.controller() else { return };
        let key = key_of(job, parent);
        let mut state = self.lock();
        let Some(cached) = state.chains.get(&key).cloned() else { return };
        let has_same_parent =
            |other: &Arc<JobView>| other.metadata.controller().is_some_and(|owner| key_of(other, owner) == key);
        if !jobs.by_index(&JobView::BY_CONTROLLER, &parent.uid).iter().any(has_same_parent) {
            state.chains.remove(&key);
            state.remove_from_index(&job.metadata.namespace, &cached.chain, &key);
        }
    }

    /// The parent of a Job without a Workload, if it is time to read its owners.
    fn parent_to_look_up<'a>(&self, ctx: &JobContext, job: &'a JobView) -> Option<&'a OwnerRef> {
        let mode = management_mode(job, &ctx.gates, &ctx.config.child_owners);
        let needs_no_group = is_finished(job) || job.metadata.is_deleting() || is_managed_by_others(job);
        if mode != ManagementMode::ManagePodGroupOnly || needs_no_group {
            return None;
        }
        let cached = self.get(job);
        let is_due = |cached: &CachedOwnerChain| cached.due_in(ctx.clock.now(), ctx.config.retry).is_zero();
        if cached.as_deref().is_some_and(|cached| !is_due(cached))
            || !workloads_of(ctx, job, mode, cached.as_deref()).is_empty()
        {
            return None;
        }
        job.metadata.controller()
    }

    fn insert(&self, jobs: &Cache<JobView>, job: &JobView, parent: &OwnerRef, chain: OwnerChain, now: Timestamp) {
        let mut state = self.lock();
        // If the Job is gone or has another parent by now, `forget` was called already and would not be called again.
        let has_same_parent = |cached: Arc<JobView>| cached.metadata.controller() == Some(parent);
        if !jobs.get(&job.metadata.key()).is_some_and(has_same_parent) {
            return;
        }
        let (namespace, key) = (&job.metadata.namespace, key_of(job, parent));
        let before = state.chains.remove(&key);
        before.iter().for_each(|before| state.remove_from_index(namespace, &before.chain, &key));
        state
            .parents_by_owner
            .extend(chain.owners().iter().map(|owner| (controller_ref(namespace, owner), key.clone())));
        let lookups = before.map_or(0, |before| before.lookups).saturating_add(1);
        state.chains.insert(key, Arc::new(CachedOwnerChain { chain, lookups, looked_up_at: now }));
    }

    // Locked for one read or change, never across an await.
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

/// Reads an owner from the server. An error is retriable.
async fn look_up_owner(client: &kube::Client, namespace: &str, owner: &OwnerRef) -> Result<OwnerLookup, kube::Error> {
    let lookup = async {
        let OwnerRef { api_version, kind, name, .. } = owner;
        match object_path(client, api_version, kind, &ObjectKey::new(namespace, name)).await? {
            None => Ok(OwnerLookup::Unreadable(format!("the API server serves no {kind} in {api_version}"))),
            Some(path) => Ok(read_meta(client, &path)
                .await?
                .map_or(OwnerLookup::Absent, |meta| OwnerLookup::Found(Box::new(meta)))),
        }
    };
    match lookup.await {
        Err(error) if !is_retriable(&error) => Ok(OwnerLookup::Unreadable(message(&error))),
        result => result,
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

    /// `Set a`, and its owner, a `Train` of this name.
    fn chain_of(of: &JobView, above: &str) -> OwnerChain {
        let parent = of.metadata.controller().cloned().unwrap_or_default();
        let above =
            OwnerRef { kind: "Train".to_owned(), name: above.to_owned(), controller: true, ..OwnerRef::default() };
        let above = OwnerRef { api_version: "example.com/v1".to_owned(), uid: above.name.clone(), ..above };
        let mut chain = OwnerChain::from(parent.clone());
        let meta = MetaView { uid: parent.uid, owner_references: vec![above], ..MetaView::default() };
        chain.record_lookup(OwnerLookup::Found(Box::new(meta)));
        chain
    }

    fn cache_of(jobs: &[&JobView]) -> Cache<JobView> {
        let cache = Cache::new(&[JobView::BY_CONTROLLER]);
        cache.replace(jobs.iter().map(|job| (*job).clone()).collect(), &BTreeSet::new(), Revision(1));
        cache
    }

    fn remember(owners: &OwnerCache, jobs: &Cache<JobView>, job: &JobView, above: &str) {
        let parent = job.metadata.controller().cloned().unwrap_or_default();
        owners.insert(jobs, job, &parent, chain_of(job, above), at(0));
    }

    #[test]
    fn a_parent_is_forgotten_with_its_last_job() {
        let (one, other) = (child("ns", "one"), child("ns", "other"));
        let owners = OwnerCache::default();
        remember(&owners, &cache_of(&[&one, &other]), &one, "b");
        assert_eq!(owners.parents_below("ns/example.com/Train/b"), ["set-uid"]);
        assert!(owners.get(&other).is_some(), "siblings share the entry");
        owners.forget(&cache_of(&[&other]), &one);
        assert!(owners.get(&other).is_some());
        owners.forget(&cache_of(&[]), &other);
        assert!(owners.get(&other).is_none() && owners.lock().parents_by_owner.is_empty());
        remember(&owners, &cache_of(&[]), &other, "b");
        assert!(owners.get(&other).is_none(), "an entry of a Job that is gone would stay forever");
    }

    #[test]
    fn a_new_lookup_replaces_the_cached_owners() {
        let one = child("ns", "one");
        let (owners, jobs) = (OwnerCache::default(), cache_of(&[&one]));
        remember(&owners, &jobs, &one, "b");
        remember(&owners, &jobs, &one, "c");
        assert_eq!(owners.get(&one).map(|cached| cached.lookups), Some(2));
        let below = |owner: &str| owners.parents_below(owner).len();
        assert_eq!((below("ns/example.com/Train/b"), below("ns/example.com/Train/c")), (0, 1));
    }

    // A user can write any uid into an owner reference.
    #[test]
    fn cached_owners_are_used_only_in_their_own_namespace() {
        let (here, there) = (child("ns", "one"), child("elsewhere", "one"));
        let (owners, jobs) = (OwnerCache::default(), cache_of(&[&here, &there]));
        remember(&owners, &jobs, &there, "b");
        assert!(owners.get(&here).is_none());
        assert!(owners.parents_below("ns/example.com/Train/b").is_empty());
    }
}
