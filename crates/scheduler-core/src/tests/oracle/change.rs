//! The changes of a generated history.

use proptest::prelude::*;

/// A change of the cluster, or of what the core knows. Numbers select one of what there is.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A node is added, or its labels, taints and allocatable resources change.
    SetNode {
        name: u8,
        gpu: u8,
        cpu: u8,
        pods: u8,
        rack: u8,
        is_tainted: bool,
        has_ssd: bool,
    },
    /// Only the rack of a node changes.
    Relabel {
        name: u8,
        rack: u8,
    },
    /// A node is lost. Its pods stay until they are deleted.
    LoseNode {
        name: u8,
    },
    /// A group with its pods. `leader`: the GPUs and CPUs of its first pod, if different.
    Group {
        basic: bool,
        min_count: u8,
        extra: u8,
        gpu: u8,
        cpu: u8,
        leader: Option<(u8, u8)>,
        in_rack: bool,
        priority: u8,
        on_ssd: bool,
        gated_count: u8,
        /// Which Job it belongs to, if to any.
        owner: u8,
    },
    /// One more pod of a group.
    Member {
        group: u8,
        gpu: u8,
        is_gated: bool,
        has_other_owner: bool,
    },
    /// A pod without a group.
    Single {
        gpu: u8,
        cpu: u8,
        on_ssd: bool,
        on_node: Option<u8>,
    },
    /// A pending pod of another scheduler, nominated to a node.
    Foreign {
        gpu: u8,
        priority: u8,
        node: u8,
    },
    /// Such a pod is nominated to another node.
    Nominate {
        pod: u8,
        node: u8,
    },
    /// Such a pod is bound to a node with room for it.
    BindForeign {
        pod: u8,
        node: u8,
    },
    /// A pending pod is bound by another scheduler, wherever there is room or not.
    Steal {
        pod: u8,
        node: u8,
    },
    /// The gates of a pod are removed.
    Ungate {
        pod: u8,
    },
    SetMinCount {
        group: u8,
        min_count: u8,
    },
    /// How many pods a group can still have is declared, or no longer.
    SetExpectedCount {
        group: u8,
        expected_count: Option<u8>,
    },
    SetPriority {
        group: u8,
        priority: u8,
    },
    /// A group gets a topology key, or loses it.
    ToggleRack {
        group: u8,
    },
    /// A group gets another owner, or none.
    SetOwner {
        group: u8,
        owner: u8,
    },
    /// A controller adopts a member, instead of the one that it had.
    Adopt {
        pod: u8,
        owner: u8,
    },
    /// A PodGroup is deleted; its pods stay.
    ForgetGroup {
        group: u8,
    },
    /// It is created again, perhaps with another quorum, and without conditions.
    RestoreGroup {
        group: u8,
        min_count: u8,
    },
    /// A pod without a node is resized, also while its bind is in flight.
    Resize {
        pod: u8,
        gpu: u8,
    },
    /// A pod terminates while its bind is in flight, which therefore fails.
    TerminateInFlight {
        pod: u8,
    },
    /// A pod is deleted and created again with the same name, also while its bind is in flight.
    Recreate {
        pod: u8,
    },
    /// A bound pod terminates. Its capacity is in use until it is deleted.
    Terminate {
        pod: u8,
    },
    Delete {
        pod: u8,
    },
    /// A bound pod succeeds.
    Finish {
        pod: u8,
    },
    /// All pods of a group end, and another Job uses it, or the same one again.
    NewRun {
        group: u8,
        count: u8,
        is_same_job: bool,
    },
    /// A bound pod is resized in place to one GPU.
    Shrink {
        pod: u8,
    },
    /// Conditions of groups whose quorum is bound are written.
    Publish,
    /// The results of binds with unknown results become known; one bit each.
    Settle {
        bound: u16,
    },
    /// A new core takes over. Binds with unknown results have succeeded or not; one bit each.
    FailOver {
        bound: u16,
    },
    /// Time passes, and everything that is due is decided. `outcomes`: two bits for each bind.
    Decide {
        seconds: u8,
        outcomes: u64,
    },
}

pub(super) fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop_oneof![3 => prop::collection::vec(change(), 1..80), 3 => crowded(), 1 => equals()]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        8 => node(6),
        2 => (0..6u8, 0..4u8).prop_map(|(name, rack)| Change::Relabel { name, rack }),
        1 => (0..6u8).prop_map(|name| Change::LoseNode { name }),
        8 => group(),
        3 => (any::<u8>(), 1..4u8, prop::bool::weighted(0.3), prop::bool::weighted(0.2))
            .prop_map(|(group, gpu, is_gated, has_other_owner)| Change::Member { group, gpu, is_gated, has_other_owner }),
        5 => single(),
        2 => foreign(6),
        1 => (any::<u8>(), 0..6u8).prop_map(|(pod, node)| Change::Nominate { pod, node }),
        1 => (any::<u8>(), 0..6u8).prop_map(|(pod, node)| Change::BindForeign { pod, node }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(pod, node)| Change::Steal { pod, node }),
        3 => any::<u8>().prop_map(|pod| Change::Ungate { pod }),
        2 => (any::<u8>(), 1..6u8).prop_map(|(group, min_count)| Change::SetMinCount { group, min_count }),
        2 => any::<u8>().prop_map(|pod| Change::Terminate { pod }),
        1 => any::<u8>().prop_map(|pod| Change::TerminateInFlight { pod }),
        1 => any::<u8>().prop_map(|pod| Change::Recreate { pod }),
        6 => any::<u8>().prop_map(|pod| Change::Delete { pod }),
        3 => any::<u8>().prop_map(|pod| Change::Finish { pod }),
        2 => (any::<u8>(), 1..4u8, any::<bool>())
            .prop_map(|(group, count, is_same_job)| Change::NewRun { group, count, is_same_job }),
        3 => term(),
        1 => any::<u8>().prop_map(|pod| Change::Shrink { pod }),
        2 => Just(Change::Publish),
        2 => any::<u16>().prop_map(|bound| Change::Settle { bound }),
        1 => any::<u16>().prop_map(|bound| Change::FailOver { bound }),
        20 => decide(),
    ]
}

/// One or two nodes full of small pods that leave one by one, while groups wait. Most wake-ups happen here.
fn crowded() -> impl Strategy<Value = Vec<Change>> {
    let step = prop_oneof![
        2 => node(3),
        2 => (0..3u8, 0..3u8).prop_map(|(name, rack)| Change::Relabel { name, rack }),
        1 => group(),
        3 => mixed_gang(),
        1 => single(),
        1 => foreign(3),
        1 => (any::<u8>(), 0..3u8).prop_map(|(pod, node)| Change::Nominate { pod, node }),
        1 => (any::<u8>(), 0..3u8).prop_map(|(pod, node)| Change::BindForeign { pod, node }),
        6 => any::<u8>().prop_map(|pod| Change::Delete { pod }),
        1 => any::<u8>().prop_map(|pod| Change::Ungate { pod }),
        1 => (any::<u8>(), 1..4u8).prop_map(|(group, min_count)| Change::SetMinCount { group, min_count }),
        1 => term(),
    ];
    let steps = (prop::collection::vec(node(3), 1..4), prop::collection::vec(single(), 3..12));
    (steps, prop::collection::vec(step, 5..30)).prop_map(|((nodes, singles), steps)| {
        let decide = Change::Decide { seconds: 20, outcomes: 0 };
        let decided = steps.into_iter().flat_map(|step| [step, decide.clone()]);
        nodes.into_iter().chain(singles).chain([decide.clone()]).chain(decided).collect()
    })
}

/// Equal groups, of which one is woken for all. Several changes come before each decision, also of the others.
fn equals() -> impl Strategy<Value = Vec<Change>> {
    let step = prop_oneof![
        4 => node(3),
        5 => any::<u8>().prop_map(|pod| Change::Delete { pod }),
        2 => (any::<u8>(), 1..3u8).prop_map(|(group, gpu)| Change::Member { group, gpu, is_gated: false, has_other_owner: false }),
        1 => single(),
        1 => term(),
    ];
    let steps = prop::collection::vec(prop::collection::vec(step, 1..5), 3..15);
    let groups = (prop_oneof![group(), mixed_gang()], 2..5usize);
    (prop::collection::vec(node(3), 0..3), groups, steps).prop_map(|(nodes, (group, count), steps)| {
        let decide = Change::Decide { seconds: 20, outcomes: 0 };
        let decided = steps.into_iter().flat_map(|steps| steps.into_iter().chain([decide.clone()]));
        let groups = std::iter::repeat_n(group, count);
        nodes.into_iter().chain(groups).chain([decide.clone()]).chain(decided).collect()
    })
}

/// A change of what a group or a pod requests.
fn term() -> impl Strategy<Value = Change> {
    prop_oneof![
        1 => (any::<u8>(), 0..3u8).prop_map(|(group, priority)| Change::SetPriority { group, priority }),
        1 => any::<u8>().prop_map(|group| Change::ToggleRack { group }),
        1 => (any::<u8>(), prop::option::weighted(0.8, 0..6u8))
            .prop_map(|(group, expected_count)| Change::SetExpectedCount { group, expected_count }),
        1 => (any::<u8>(), 0..3u8).prop_map(|(group, owner)| Change::SetOwner { group, owner }),
        1 => (any::<u8>(), 0..3u8).prop_map(|(pod, owner)| Change::Adopt { pod, owner }),
        1 => any::<u8>().prop_map(|group| Change::ForgetGroup { group }),
        2 => (any::<u8>(), 1..6u8).prop_map(|(group, min_count)| Change::RestoreGroup { group, min_count }),
        3 => (any::<u8>(), 1..4u8).prop_map(|(pod, gpu)| Change::Resize { pod, gpu }),
    ]
}

fn node(count: u8) -> impl Strategy<Value = Change> {
    let sizes = (0..9u8, prop_oneof![1 => Just(96), 1 => 0..9u8], 1..8u8);
    (0..count, sizes, 0..4u8, prop::bool::weighted(0.1), any::<bool>()).prop_map(
        |(name, (gpu, cpu, pods), rack, is_tainted, has_ssd)| Change::SetNode {
            name,
            gpu,
            cpu,
            pods,
            rack,
            is_tainted,
            has_ssd,
        },
    )
}

fn group() -> impl Strategy<Value = Change> {
    let sizes = (1..6u8, 0..3u8, 1..4u8, cpu(), prop::option::of((1..6u8, cpu())));
    let terms = (prop::bool::weighted(0.25), any::<bool>(), 0..3u8, prop::bool::weighted(0.2));
    (sizes, terms, prop_oneof![3 => Just(0), 1 => 1..3u8], prop_oneof![4 => Just(0), 1 => Just(1)]).prop_map(
        |((min_count, extra, gpu, cpu, leader), (basic, in_rack, priority, on_ssd), gated_count, owner)| {
            Change::Group { basic, min_count, extra, gpu, cpu, leader, in_rack, priority, on_ssd, gated_count, owner }
        },
    )
}

/// A gang whose leader has another size than its workers.
fn mixed_gang() -> impl Strategy<Value = Change> {
    let sizes = (prop_oneof![3 => 2..4u8, 1 => Just(0)], cpu(), (0..6u8, cpu()));
    (2..4u8, 0..2u8, sizes, any::<bool>()).prop_map(|(min_count, extra, (gpu, cpu, leader), in_rack)| Change::Group {
        basic: false,
        min_count,
        extra,
        gpu,
        cpu,
        leader: Some(leader),
        in_rack,
        priority: 0,
        on_ssd: false,
        gated_count: 0,
        owner: 0,
    })
}

fn foreign(nodes_count: u8) -> impl Strategy<Value = Change> {
    (1..4u8, 0..3u8, 0..nodes_count).prop_map(|(gpu, priority, node)| Change::Foreign { gpu, priority, node })
}

fn single() -> impl Strategy<Value = Change> {
    let on_node = prop_oneof![4 => Just(None), 1 => (0..6u8).prop_map(Some)];
    (1..4u8, cpu(), prop::bool::weighted(0.2), on_node).prop_map(|(gpu, cpu, on_ssd, on_node)| Change::Single {
        gpu,
        cpu,
        on_ssd,
        on_node,
    })
}

fn cpu() -> impl Strategy<Value = u8> {
    prop_oneof![1 => Just(0), 1 => 1..4u8]
}

fn decide() -> impl Strategy<Value = Change> {
    let outcomes = prop_oneof![2 => Just(0), 1 => any::<u64>()];
    let seconds = prop_oneof![Just(0), Just(2), Just(20), Just(60)];
    (seconds, outcomes).prop_map(|(seconds, outcomes)| Change::Decide { seconds, outcomes })
}
