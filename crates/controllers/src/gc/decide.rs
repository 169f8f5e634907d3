//! What is to be done about one object, from the graph alone.

use std::collections::{BTreeMap, BTreeSet};

use api::views::OwnerRef;

use super::graph::{FOREGROUND, Graph, GraphObject, ORPHAN};

/// Chains of owners longer than this hold; Job, Workload, PodGroup, pod is a chain of four.
const MAX_DEPTH: usize = 8;

/// How an owner stands to its dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// It holds its dependents.
    Solid,
    /// It is being deleted and waits for its dependents to go first.
    WaitingForDependents,
    /// It is there, but as good as gone: it holds nothing, and its reference needs no tidying.
    Deleting,
    /// It is gone.
    Absent,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GcAction {
    /// Nothing.
    Keep,
    /// The server has to be asked for these owners first.
    LookUpOwners(Vec<OwnerRef>),
    /// Take away the owner references at these positions.
    RemoveOwnerRefs(Vec<usize>),
    /// Take the reference to this object off its dependents.
    OrphanDependents,
    /// Take this finalizer away.
    RemoveFinalizer(&'static str),
    /// Delete it; its dependents follow.
    Delete,
    /// Delete it after its dependents.
    DeleteForeground,
}

/// Decides about `object`. `asked` holds what the server said about owners the graph does not know.
pub fn decide(graph: &Graph, object: &GraphObject, asked: &BTreeMap<String, OwnerState>) -> GcAction {
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
        object.owners().iter().map(|owner| owner_state(graph, object, owner, asked, MAX_DEPTH)).collect();
    let unknown = object.owners().iter().zip(&states).filter(|(_, state)| state.is_none());
    let unknown: Vec<OwnerRef> = unknown.map(|(owner, _)| owner.clone()).collect();
    if !unknown.is_empty() {
        return GcAction::LookUpOwners(unknown);
    }
    if states.contains(&Some(OwnerState::Solid)) {
        let spent =
            |state: &Option<OwnerState>| matches!(state, Some(OwnerState::Absent | OwnerState::WaitingForDependents));
        let positions: Vec<usize> = (0..states.len()).filter(|position| spent(&states[*position])).collect();
        return if positions.is_empty() { GcAction::Keep } else { GcAction::RemoveOwnerRefs(positions) };
    }
    let has_dependents = graph.dependents(object.uid()).next().is_some();
    if has_dependents && states.contains(&Some(OwnerState::WaitingForDependents)) {
        GcAction::DeleteForeground
    } else {
        GcAction::Delete
    }
}

/// Whether `object` is itself deleted only after `uid`. In such a circle everybody would wait for ever, so there a
/// dependent does not block.
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

/// Whether `owner` is where the owners of `dependent` can be: a reference names no namespace.
fn can_own(owner: &GraphObject, dependent: &GraphObject) -> bool {
    let namespace = &owner.meta().namespace;
    namespace.is_empty() || *namespace == dependent.meta().namespace
}

/// How an owner of `of` stands; `None` if neither the graph nor the server has said.
fn owner_state(
    graph: &Graph,
    of: &GraphObject,
    owner: &OwnerRef,
    asked: &BTreeMap<String, OwnerState>,
    depth: usize,
) -> Option<OwnerState> {
    let Some(object) = graph.get(&owner.uid) else {
        let seen_to_go = graph.is_absent(&owner.uid).then_some(OwnerState::Absent);
        return seen_to_go.or_else(|| asked.get(&owner.uid).copied());
    };
    if !can_own(object, of) {
        return Some(OwnerState::Absent);
    }
    if object.waits_for_dependents() {
        return Some(OwnerState::WaitingForDependents);
    }
    // Upstream: an owner that is being deleted but held by a finalizer is as solid as any. For a PodGroup that would be
    // a deadlock: its protection finalizer waits for the pods, which would wait for it.
    if object.meta().is_deleting() && object.resource().kind == "PodGroup" {
        return Some(OwnerState::Deleting);
    }
    // Upstream: an owner holds until it is deleted itself, so the dependents of a deleted Job first lose one reference
    // and are deleted in a second round. An owner all of whose owners are gone goes anyway, and does not hold them up.
    let goes = |owner: &OwnerRef| {
        owner_state(graph, object, owner, asked, depth - 1).is_some_and(|state| state != OwnerState::Solid)
    };
    let is_doomed = depth > 0 && !object.owners().is_empty() && object.owners().iter().all(goes);
    Some(if is_doomed { OwnerState::Deleting } else { OwnerState::Solid })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::Timestamp;
    use api::views::{JobView, MetaView, PodGroupView, PodView, WorkloadView};

    use super::*;

    /// `job`, `workload<job`, `group<job!,workload`: `!` blocks the owner's deletion; `~` is being deleted;
    /// `+finalizer` is held.
    fn object(text: &str) -> GraphObject {
        let (head, owners) = text.split_once('<').unwrap_or((text, ""));
        let mut parts = head.split('+');
        let head = parts.next().unwrap_or_default();
        let uid = head.trim_end_matches('~').to_owned();
        let owner = |text: &str| OwnerRef {
            uid: text.trim_end_matches('!').to_owned(),
            block_owner_deletion: text.ends_with('!'),
            ..OwnerRef::default()
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
        match head.chars().next() {
            Some('j') => GraphObject::of(Arc::new(JobView { metadata, ..JobView::default() })),
            Some('w') => GraphObject::of(Arc::new(WorkloadView { metadata, ..WorkloadView::default() })),
            Some('g') => GraphObject::of(Arc::new(PodGroupView { metadata, ..PodGroupView::default() })),
            _ => GraphObject::of(Arc::new(PodView { metadata, ..PodView::default() })),
        }
    }

    #[test]
    fn an_object_goes_when_nothing_holds_it() {
        for (case, gone, world, about, want) in [
            ("no owner", "", "job", "job", GcAction::Keep),
            ("a living owner", "", "job pod<job!", "pod", GcAction::Keep),
            ("an owner that went", "job", "pod<job!", "pod", GcAction::Delete),
            (
                "an owner nobody has seen",
                "",
                "pod<job!",
                "pod",
                GcAction::LookUpOwners(vec![object("x<job!").owners()[0].clone()]),
            ),
            (
                "one owner of two went",
                "workload",
                "job group<job!,workload",
                "group",
                GcAction::RemoveOwnerRefs(vec![1]),
            ),
            ("already on its way", "job", "pod~<job!", "pod", GcAction::Keep),
            ("the Job went: its Workload", "job", "workload<job! group<job!,workload", "workload", GcAction::Delete),
            (
                "its group, the Workload being doomed",
                "job",
                "workload<job! group<job!,workload",
                "group",
                GcAction::Delete,
            ),
            (
                "its pods, the group being doomed",
                "job",
                "workload<job! group<job!,workload pod<job!,group",
                "pod",
                GcAction::Delete,
            ),
            (
                "a group with a life of its own holds the pod",
                "job",
                "workload group<workload pod<job!,group",
                "pod",
                GcAction::RemoveOwnerRefs(vec![0]),
            ),
            (
                "a group that is being deleted holds no pod",
                "job",
                "group~+protection pod<job!,group",
                "pod",
                GcAction::Delete,
            ),
            ("but the Job does", "", "job group~+protection pod<job!,group", "pod", GcAction::Keep),
            ("a deleting owner held by others holds", "", "job~+other pod<job!", "pod", GcAction::Keep),
        ] {
            assert_eq!(decide_text(gone, world, about), want, "{case}");
        }
    }

    #[test]
    fn a_waiting_owner_goes_after_its_dependents() {
        for (case, world, about, want) in [
            ("dependents go first", "job~+foregroundDeletion pod<job!", "pod", GcAction::Delete),
            ("the owner waits", "job~+foregroundDeletion pod~<job!", "job", GcAction::Keep),
            (
                "not for those that do not block",
                "job~+foregroundDeletion pod<job",
                "job",
                GcAction::RemoveFinalizer(FOREGROUND),
            ),
            ("nothing left", "job~+foregroundDeletion", "job", GcAction::RemoveFinalizer(FOREGROUND)),
            (
                "a dependent with dependents waits in turn",
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
            assert_eq!(decide_text("", world, about), want, "{case}");
        }
    }

    #[test]
    fn an_orphaning_owner_lets_its_dependents_go() {
        assert_eq!(decide_text("", "job~+orphan pod<job!", "job"), GcAction::OrphanDependents);
        assert_eq!(decide_text("", "job~+orphan pod<job!", "pod"), GcAction::Keep);
        assert_eq!(decide_text("", "job~+orphan pod", "job"), GcAction::RemoveFinalizer(ORPHAN));
    }

    #[test]
    fn owners_that_own_each_other_stay() {
        assert_eq!(decide_text("", "w1<w2 w2<w1", "w1"), GcAction::Keep);
    }

    #[test]
    fn owners_that_own_each_other_do_not_wait_for_each_other_for_ever() {
        let two = "w1~+foregroundDeletion<w2! w2~+foregroundDeletion<w1!";
        assert_eq!(decide_text("", two, "w1"), GcAction::RemoveFinalizer(FOREGROUND));
        let three = "w1~+foregroundDeletion<w3! w2~+foregroundDeletion<w1! w3~+foregroundDeletion<w2!";
        assert_eq!(decide_text("", three, "w1"), GcAction::RemoveFinalizer(FOREGROUND));
        let open = "w1~+foregroundDeletion w2~+foregroundDeletion<w1! w3<w2!";
        assert_eq!(decide_text("", open, "w1"), GcAction::Keep, "a chain is no circle");
    }

    fn decide_text(gone: &str, world: &str, about: &str) -> GcAction {
        let mut graph = Graph::default();
        gone.split_whitespace().for_each(|uid| graph.mark_absent(uid));
        for text in world.split_whitespace() {
            graph.apply(None, Some(object(text)));
        }
        decide(&graph, graph.get(about).expect("the object is in the world"), &BTreeMap::new())
    }

    #[test]
    fn a_change_calls_for_a_look_at_those_it_concerns() {
        let mut graph = Graph::default();
        for text in ["job", "workload<job", "pod<job"] {
            graph.apply(None, Some(object(text)));
        }
        let cases = [
            ("starts to go", object("job"), Some(object("job~")), vec!["job", "pod", "workload"]),
            ("a dependent is gone", object("pod<job"), None, vec!["job"]),
            ("the owner is gone", object("job~"), None, vec!["workload"]),
        ];
        for (case, old, new, want) in cases {
            assert_eq!(graph.apply(Some(old), new), want, "{case}");
        }
        assert!(graph.is_absent("job") && !graph.is_absent("workload"));
    }
}
