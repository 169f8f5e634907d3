//! The action for one object, from the graph alone.

use std::collections::{BTreeMap, BTreeSet};

use api::kinds::{self, ApiResource};
use api::views::OwnerRef;

use super::graph::{FOREGROUND, Graph, GraphObject, ORPHAN};

/// Owners further up than this count as solid. Job, Workload, PodGroup, pod is a chain of four.
const MAX_DEPTH: usize = 8;

/// The state of an owner, as far as its dependents depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// It keeps its dependents.
    Solid,
    /// It is being deleted in the foreground and waits for its dependents.
    WaitingForDependents,
    /// It exists but will be deleted: it keeps no dependents, and references to it need not be removed.
    Deleting,
    /// It is gone.
    Absent,
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GcAction {
    /// Nothing.
    Keep,
    /// Read these owners from the server first.
    LookUpOwners(Vec<OwnerRef>),
    /// Remove the owner references at these positions.
    RemoveOwnerRefs(Vec<usize>),
    /// Remove the reference to this object from its dependents.
    OrphanDependents,
    /// Remove this finalizer.
    RemoveFinalizer(&'static str),
    /// Delete it; its dependents are deleted later.
    Delete,
    /// Delete it after its dependents.
    DeleteForeground,
}

/// The action for `object`. `looked_up` has the owners that were read from the server because the graph does not have them.
pub fn decide(graph: &Graph, object: &GraphObject, looked_up: &BTreeMap<String, OwnerState>) -> GcAction {
    if object.orphans_dependents() {
        let has_dependents = graph.dependents(object.uid()).next().is_some();
        return if has_dependents { GcAction::OrphanDependents } else { GcAction::RemoveFinalizer(ORPHAN) };
    }
    if object.waits_for_dependents() {
        let blocks = |owner: &OwnerRef| owner.uid == object.uid() && owner.block_owner_deletion;
        let blocked = graph
            .dependents(object.uid())
            .filter(|dependent| can_own(object, dependent))
            .any(|dependent| dependent.owners().iter().any(blocks) && !waits_for(graph, dependent, object.uid()));
        return if blocked { GcAction::Keep } else { GcAction::RemoveFinalizer(FOREGROUND) };
    }
    if object.meta().is_deleting() || object.owners().is_empty() {
        return GcAction::Keep;
    }
    let states: Vec<_> =
        object.owners().iter().map(|owner| owner_state(graph, object, owner, looked_up, MAX_DEPTH)).collect();
    let unknown = object.owners().iter().zip(&states).filter(|(_, state)| state.is_none());
    let unknown: Vec<OwnerRef> = unknown.map(|(owner, _)| owner.clone()).collect();
    if !unknown.is_empty() {
        return GcAction::LookUpOwners(unknown);
    }
    if states.contains(&Some(OwnerState::Solid)) {
        let is_removable =
            |state: &Option<OwnerState>| matches!(state, Some(OwnerState::Absent | OwnerState::WaitingForDependents));
        let positions: Vec<usize> = (0..states.len()).filter(|position| is_removable(&states[*position])).collect();
        return if positions.is_empty() { GcAction::Keep } else { GcAction::RemoveOwnerRefs(positions) };
    }
    let has_dependents = graph.dependents(object.uid()).next().is_some();
    if has_dependents && states.contains(&Some(OwnerState::WaitingForDependents)) {
        GcAction::DeleteForeground
    } else {
        GcAction::Delete
    }
}

/// Whether `object` itself waits for the deletion of `uid`. In such a cycle all objects would wait forever, so a dependent
/// in it does not block its owner.
fn waits_for(graph: &Graph, object: &GraphObject, uid: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![object];
    while let Some(object) = waiting.pop() {
        if !object.waits_for_dependents() || !seen.insert(object.uid()) {
            continue;
        }
        for dependent in graph.dependents(object.uid()) {
            if dependent.uid() == uid {
                return true;
            }
            waiting.push(dependent);
        }
    }
    false
}

/// Whether `owner` is cluster-scoped or in the namespace of `dependent`. A reference has no namespace.
fn can_own(owner: &GraphObject, dependent: &GraphObject) -> bool {
    let namespace = &owner.meta().namespace;
    namespace.is_empty() || *namespace == dependent.meta().namespace
}

/// The kind of an owner, if it is one of the registry.
pub fn owner_kind(owner: &OwnerRef) -> Option<&'static ApiResource> {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    kinds::ALL.iter().copied().find(|resource| resource.group == group && resource.kind == owner.kind)
}

/// The state of an owner of `of`; `None` if neither the graph nor `looked_up` has it.
fn owner_state(
    graph: &Graph,
    of: &GraphObject,
    owner: &OwnerRef,
    looked_up: &BTreeMap<String, OwnerState>,
    depth: usize,
) -> Option<OwnerState> {
    // A reference has no namespace, so a namespaced owner of an object without one cannot be found. Such an object is
    // kept, as in Kubernetes.
    if of.meta().namespace.is_empty() && owner_kind(owner).is_some_and(|kind| kind.namespaced) {
        return Some(OwnerState::Solid);
    }
    // A reference with the uid of an object and another name or kind is looked up by its name, as in Kubernetes.
    let is_named = |object: &&GraphObject| object.meta().name == owner.name && object.resource().kind == owner.kind;
    let Some(object) = graph.get(&owner.uid).filter(is_named) else {
        let known_absent = graph.is_absent(&owner.uid).then_some(OwnerState::Absent);
        return known_absent.or_else(|| looked_up.get(&owner.uid).copied());
    };
    if !can_own(object, of) {
        return Some(OwnerState::Absent);
    }
    if object.waits_for_dependents() {
        return Some(OwnerState::WaitingForDependents);
    }
    // Upstream: an owner that is being deleted but has a finalizer is solid. For a PodGroup that would be a deadlock: its
    // protection finalizer waits for the pods, which would wait for it.
    if object.meta().is_deleting() && object.resource().kind == "PodGroup" {
        return Some(OwnerState::Deleting);
    }
    // Upstream: an owner is solid until it is deleted itself, so the dependents of a deleted Job first lose one reference
    // and are deleted in a second round. An owner without remaining owners will be deleted, so it keeps no dependents.
    let is_not_solid = |owner: &OwnerRef| {
        owner_state(graph, object, owner, looked_up, depth - 1).is_some_and(|state| state != OwnerState::Solid)
    };
    let is_doomed = depth > 0 && !object.owners().is_empty() && object.owners().iter().all(is_not_solid);
    Some(if is_doomed { OwnerState::Deleting } else { OwnerState::Solid })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::Timestamp;
    use api::views::{JobView, MetaView, PodGroupView, PodView, WorkloadView};

    use super::*;

    /// `job`, `workload<job`, `group<job!,workload`: `!` blocks the owner's deletion; `~` is being deleted;
    /// `+finalizer` has it.
    fn object(text: &str) -> GraphObject {
        let (head, owners) = text.split_once('<').unwrap_or((text, ""));
        let mut parts = head.split('+');
        let head = parts.next().unwrap_or_default();
        let uid = head.trim_end_matches('~').to_owned();
        let owner = |text: &str| {
            let uid = text.trim_end_matches('!').to_owned();
            let (name, kind) = (uid.clone(), kind(&uid).to_owned());
            OwnerRef { uid, name, kind, block_owner_deletion: text.ends_with('!'), ..OwnerRef::default() }
        };
        let metadata = MetaView {
            namespace: "ns".to_owned(),
            name: uid.clone(),
            owner_references: owners.split(',').filter(|text| !text.is_empty()).map(owner).collect(),
            finalizers: parts.map(str::to_owned).collect(),
            deletion_timestamp: head.ends_with('~').then_some(Timestamp::UNIX_EPOCH),
            uid,
            ..MetaView::default()
        };
        match kind(head) {
            "Job" => GraphObject::of(Arc::new(JobView { metadata, ..JobView::default() })),
            "Workload" => GraphObject::of(Arc::new(WorkloadView { metadata, ..WorkloadView::default() })),
            "PodGroup" => GraphObject::of(Arc::new(PodGroupView { metadata, ..PodGroupView::default() })),
            _ => GraphObject::of(Arc::new(PodView { metadata, ..PodView::default() })),
        }
    }

    fn kind(name: &str) -> &'static str {
        match name.chars().next() {
            Some('j') => "Job",
            Some('w') => "Workload",
            Some('g') => "PodGroup",
            _ => "Pod",
        }
    }

    #[test]
    fn an_owner_with_the_uid_of_an_object_of_another_name_is_looked_up() {
        let mut graph = Graph::default();
        graph.apply(None, Some(object("job")));
        let mut pod = PodView::default();
        let owner = OwnerRef { uid: "job".into(), name: "other".into(), kind: "Job".into(), ..OwnerRef::default() };
        pod.metadata.owner_references = vec![owner.clone()];
        let action = decide(&graph, &GraphObject::of(Arc::new(pod)), &BTreeMap::new());
        assert_eq!(action, GcAction::LookUpOwners(vec![owner]));
    }

    #[test]
    fn an_object_without_solid_owners_is_deleted() {
        for (case, gone, world, uid, want) in [
            ("no owner", "", "job", "job", GcAction::Keep),
            ("an existing owner", "", "job pod<job!", "pod", GcAction::Keep),
            ("an owner that is gone", "job", "pod<job!", "pod", GcAction::Delete),
            (
                "an owner that is not in the graph",
                "",
                "pod<job!",
                "pod",
                GcAction::LookUpOwners(vec![object("x<job!").owners()[0].clone()]),
            ),
            (
                "one of two owners is gone",
                "workload",
                "job group<job!,workload",
                "group",
                GcAction::RemoveOwnerRefs(vec![1]),
            ),
            ("already being deleted", "job", "pod~<job!", "pod", GcAction::Keep),
            ("the Job is gone: its Workload", "job", "workload<job! group<job!,workload", "workload", GcAction::Delete),
            (
                "its group, as the Workload will be deleted",
                "job",
                "workload<job! group<job!,workload",
                "group",
                GcAction::Delete,
            ),
            (
                "its pods, as the group will be deleted",
                "job",
                "workload<job! group<job!,workload pod<job!,group",
                "pod",
                GcAction::Delete,
            ),
            (
                "a group that stays keeps the pod",
                "job",
                "workload group<workload pod<job!,group",
                "pod",
                GcAction::RemoveOwnerRefs(vec![0]),
            ),
            (
                "a group that is being deleted keeps no pod",
                "job",
                "group~+protection pod<job!,group",
                "pod",
                GcAction::Delete,
            ),
            ("but the Job keeps it", "", "job group~+protection pod<job!,group", "pod", GcAction::Keep),
            ("an owner that waits for another finalizer keeps it", "", "job~+other pod<job!", "pod", GcAction::Keep),
        ] {
            assert_eq!(decide_text(gone, world, uid), want, "{case}");
        }
    }

    #[test]
    fn an_owner_in_foreground_deletion_is_deleted_after_its_dependents() {
        for (case, world, uid, want) in [
            ("dependents are deleted first", "job~+foregroundDeletion pod<job!", "pod", GcAction::Delete),
            ("the owner waits", "job~+foregroundDeletion pod~<job!", "job", GcAction::Keep),
            (
                "not for dependents that do not block",
                "job~+foregroundDeletion pod<job",
                "job",
                GcAction::RemoveFinalizer(FOREGROUND),
            ),
            ("nothing left", "job~+foregroundDeletion", "job", GcAction::RemoveFinalizer(FOREGROUND)),
            (
                "a dependent with dependents is deleted in the foreground too",
                "job~+foregroundDeletion group<job! pod<job!,group",
                "group",
                GcAction::DeleteForeground,
            ),
            (
                "a solid owner keeps it",
                "job~+foregroundDeletion workload group<job!,workload",
                "group",
                GcAction::RemoveOwnerRefs(vec![0]),
            ),
        ] {
            assert_eq!(decide_text("", world, uid), want, "{case}");
        }
    }

    #[test]
    fn orphan_deletion_removes_the_references_of_dependents_first() {
        assert_eq!(decide_text("", "job~+orphan pod<job!", "job"), GcAction::OrphanDependents);
        assert_eq!(decide_text("", "job~+orphan pod<job!", "pod"), GcAction::Keep);
        assert_eq!(decide_text("", "job~+orphan pod", "job"), GcAction::RemoveFinalizer(ORPHAN));
    }

    #[test]
    fn objects_that_own_each_other_are_kept() {
        assert_eq!(decide_text("", "w1<w2 w2<w1", "w1"), GcAction::Keep);
    }

    #[test]
    fn foreground_deletion_of_a_cycle_of_owners_ends() {
        let two = "w1~+foregroundDeletion<w2! w2~+foregroundDeletion<w1!";
        assert_eq!(decide_text("", two, "w1"), GcAction::RemoveFinalizer(FOREGROUND));
        let three = "w1~+foregroundDeletion<w3! w2~+foregroundDeletion<w1! w3~+foregroundDeletion<w2!";
        assert_eq!(decide_text("", three, "w1"), GcAction::RemoveFinalizer(FOREGROUND));
        let open = "w1~+foregroundDeletion w2~+foregroundDeletion<w1! w3<w2!";
        assert_eq!(decide_text("", open, "w1"), GcAction::Keep, "a chain is no cycle");
    }

    fn decide_text(gone: &str, world: &str, uid: &str) -> GcAction {
        let mut graph = Graph::default();
        gone.split_whitespace().for_each(|uid| graph.mark_absent(uid));
        for text in world.split_whitespace() {
            graph.apply(None, Some(object(text)));
        }
        decide(&graph, graph.get(uid).expect("the object is one of `world`"), &BTreeMap::new())
    }

    #[test]
    fn a_change_enqueues_the_objects_it_affects() {
        let mut graph = Graph::default();
        for text in ["job", "workload<job", "pod<job"] {
            graph.apply(None, Some(object(text)));
        }
        let cases = [
            ("its deletion starts", object("job"), Some(object("job~")), vec!["job", "pod", "workload"]),
            ("a dependent is gone", object("pod<job"), None, vec!["job"]),
            ("the owner is gone", object("job~"), None, vec!["workload"]),
        ];
        for (case, old, new, want) in cases {
            assert_eq!(graph.apply(Some(old), new), want, "{case}");
        }
        assert!(graph.is_absent("job") && !graph.is_absent("workload"));
    }
}
