//! Forks: explanations of one moment, whatever the core does meanwhile.

use insta::assert_snapshot;
use proptest::prelude::*;
use types::views::ObjectKey;

use super::properties::{PropertyRun, PropertyStep, steps};
use super::property_config::property_config;
use super::text_cluster::TextCluster;
use crate::{Fork, QueueStatus, RemedyStatus, Unit};

fn group(name: &str) -> Unit {
    Unit::Group(ObjectKey::new("ns", name))
}

#[test]
fn an_explanation_is_that_of_the_moment_of_its_fork() {
    let mut world = TextCluster::of(
        "node a gpu=4 rack=r1; node b gpu=4 rack=r2; pod solo gpu=2 node=a owner=Job:short;
        group g gang minCount=8 pods=8 gpu=1",
    );
    world.decide();
    let task = world.core.explain_task(&group("g"), &[]).unwrap();
    let queue = world.core.queue_task();
    let mut fork = world.core.fork();
    // The core goes on: the gang is placed, nodes come and go, and ids are reused.
    world.apply("delete solo");
    world.decide_and_bind();
    world.apply("drop b; node c gpu=16 zone=z; pods later 3 gpu=1; delete g-0; pod g-8 group=g gpu=2");
    world.decide_and_bind();
    assert_eq!(fork.queue(queue).iter().map(|queued| queued.unit.clone()).collect::<Vec<_>>(), [group("g")]);
    let (explanation, missed_wakeup) = fork.explain(task);
    assert_snapshot!(explanation.lines().join("\n"), @r"
    podgroup ns/g waits for a change that could help; number 1 of 1 in the queue, tried once
    gang of 8 does not fit: 6 of 8 pods fit (2 more needed; Insufficient nvidia.com/gpu on 2 of 2 nodes)
    remedies, each tried on the current cluster:
      lower minCount to 6
      wait for pod ns/solo
      add 1 node like a
    ");
    assert_eq!(missed_wakeup, None);
    world.core.assert_consistent();
}

#[test]
fn explanations_on_one_fork_see_the_ghosts_that_decisions_about_their_units_see() {
    let mut world = TextCluster::of(
        "node a gpu=4; pod run gpu=1 node=a; pod foreign gpu=1 scheduler=other priority=5 nominated=a;
        group high gang minCount=4 pods=4 gpu=1 groupPriority=6; group low gang minCount=3 pods=3 gpu=1",
    );
    let fits = [("high", 3), ("low", 2)];
    assert_snapshot!(world.decide(), @"
    high: wait (gang of 4 does not fit: 3 of 4 pods fit (1 more needed; Insufficient nvidia.com/gpu on 1 of 1 nodes))
    low: wait (gang of 3 does not fit: 2 of 3 pods fit (1 more needed; 1 of 1 nodes had room only for nominated pods))
    ");
    for order in [[0, 1], [1, 0]] {
        let tasks = order.map(|at| (fits[at], world.core.explain_task(&group(fits[at].0), &[]).unwrap()));
        let mut fork = world.core.fork();
        for ((name, fits_count), task) in tasks {
            let (explanation, missed_wakeup) = fork.explain(task);
            assert_eq!((explanation.refusal.unwrap().fits_count, missed_wakeup), (fits_count, None), "{name}");
        }
    }
    world.core.assert_consistent();
}

#[test]
fn remedies_of_a_wait_that_has_ended_are_not_reported() {
    let mut world = TextCluster::of("node a gpu=2; group g gang minCount=4 pods=4 gpu=1");
    world.decide();
    let task = world.core.remedy_tasks(world.now, 1).remove(0);
    let mut fork = world.core.fork();
    world.apply("pod large group=g gpu=2");
    let refusal = world.decide();
    assert!(refusal.contains("g: wait"), "{refusal}");
    assert_eq!(world.core.accept_remedies(fork.find_remedies(task)), None, "the large pod is not in that refusal");
    // The later refusal gets its own remedies.
    world.now = world.core.remedies_due_at().unwrap();
    let (_, refusal) = world.core.find_remedies(world.now, 1).remove(0);
    assert!(matches!(refusal.unwrap().remedies, RemedyStatus::Found(_)));
}

#[test]
#[should_panic(expected = "a task is executed on a fork of the same moment")]
fn a_task_of_another_moment_is_not_executed() {
    let mut world = TextCluster::of("node a gpu=2; group g gang minCount=4 pods=4 gpu=1");
    world.decide();
    let task = world.core.explain_task(&group("g"), &[]).unwrap();
    world.apply("node b gpu=1");
    world.core.fork().explain(task);
}

#[test]
fn a_fork_can_move_to_another_thread() {
    fn is_send<T: Send + 'static>() {}
    is_send::<Fork>();
}

proptest! {
    #![proptest_config(property_config(20))]

    /// The queue and the explanations of a fork are those that the core gives at that moment, although the core goes on
    /// before they are computed.
    #[test]
    fn a_fork_does_not_change_with_its_core(before in steps(), after in steps()) {
        let mut run = PropertyRun::again(&before);
        let waiting: Vec<Unit> = run.world.core.queue().into_iter().map(|queued| queued.unit).collect();
        let tasks: Vec<_> = waiting.iter().map(|unit| run.world.core.explain_task(unit, &[]).unwrap()).collect();
        let queue = run.world.core.queue_task();
        let (mut early, mut late) = (run.world.core.fork(), run.world.core.fork());
        let again: Vec<_> = waiting.iter().map(|unit| run.world.core.explain_task(unit, &[]).unwrap()).collect();
        let at_once: Vec<_> = tasks.into_iter().map(|task| early.explain(task).0).collect();
        let listed = run.world.core.queue();
        after.iter().for_each(|step| run.apply(step));
        run.apply(&PropertyStep::Decide { bind: true });
        let later: Vec<_> = again.into_iter().map(|task| late.explain(task).0).collect();
        prop_assert_eq!(at_once, later);
        prop_assert_eq!(late.queue(queue), listed);
        run.world.core.assert_consistent();
    }
}

#[test]
fn a_listed_unit_has_the_position_that_its_explanation_has() {
    let mut world = TextCluster::of(
        "node a gpu=1; pods late 2 gpu=1 created=20; pods early 2 gpu=1 created=10; pod first gpu=2 priority=5;
        group g gang minCount=3 pods=2 gpu=1",
    );
    world.decide();
    let queue = world.core.queue();
    assert!(queue.iter().any(|queued| queued.state == QueueStatus::Incomplete) && queue.len() == 5, "{queue:?}");
    for queued in queue {
        assert_eq!(world.core.explain(&queued.unit, &[]).unwrap().queued, Some(queued));
    }
}
