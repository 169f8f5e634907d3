//! Remedies are correct: with the change the unit is placed, and what is reported as missing is missing.

use std::sync::Arc;

use proptest::prelude::*;
use types::views::{ObjectKey, PodView};

use super::properties::{PropertyRun, PropertyStep, plain, steps};
use super::property_config::property_config;
use super::reference_model::{ModelGroup, most_that_fit};
use crate::{
    Blocker, ChosenDomain, Config, Decision, DecisionAction, Refusal, Remedy, RemedyStatus, ResourceShortfall, Unit,
    UnitExplanation,
};

fn unit(group: &str) -> Unit {
    Unit::Group(ObjectKey::new("ns", group))
}

/// The explanation of a unit.
fn explain(run: &mut PropertyRun, unit: &Unit) -> Option<UnitExplanation> {
    let name = &unit.key().name;
    let is_of = |pod: &&Arc<PodView>| pod.group_name() == Some(name) || pod.metadata.name == *name;
    let placed: Vec<_> =
        run.world.pods.values().filter(is_of).filter(|pod| pod.node_name().is_some()).cloned().collect();
    run.world.core.explain(unit, &placed)
}

/// Updates the group with these terms and the highest priority. Returns whether the pods that it needs are placed
/// then: the `minCount` of a gang that starts, otherwise every pending pod.
fn fits(run: &mut PropertyRun, group: &str, min_count: Option<usize>, key: Option<&str>) -> bool {
    let Some(Decision { action: DecisionAction::Bind(placements), unplaced, .. }) = decide(run, group, min_count, key)
    else {
        return false;
    };
    unplaced.is_none_or(|rest| rest.is_gang && rest.placed_count - placements.len() < rest.wanted_count)
}

/// The same, or some pods of a mixed group are placed: in a group that has started, the pods that fit first are
/// placed, although all of them could be.
fn may_fit(run: &mut PropertyRun, group: &str, min_count: Option<usize>, key: Option<&str>) -> bool {
    match run.model.is_mixed(group) {
        true => decide(run, group, min_count, key).is_some_and(|one| matches!(one.action, DecisionAction::Bind(_))),
        false => fits(run, group, min_count, key),
    }
}

/// The decision about the group with these terms.
fn decide(run: &mut PropertyRun, group: &str, min_count: Option<usize>, key: Option<&str>) -> Option<Decision> {
    let policy = min_count.map_or("basic".to_owned(), |count| format!("gang minCount={count}"));
    let key = key.map(|key| format!(" key={key}")).unwrap_or_default();
    run.world.apply(&format!("group {group} {policy} groupPriority=100{key}"));
    // Well before half-placed gangs and the like are due.
    while let Some(decision) = run.world.core.next(run.world.now) {
        if decision.unit.key().name == group {
            return Some(decision);
        }
    }
    None
}

/// The same for a pod without a group.
fn pod_fits(run: &mut PropertyRun, pod: &str) -> bool {
    run.world.change_pod(pod, |pod| pod["spec"]["priority"] = 100.into());
    while let Some(decision) = run.world.core.next(run.world.now) {
        if decision.unit.key().name == pod {
            return matches!(decision.action, DecisionAction::Bind(_));
        }
    }
    false
}

/// All pods of a running unit end.
fn leave(run: &mut PropertyRun, one: &Blocker) {
    let is_of_blocker = |name: &str| match &one.group {
        Some(group) => run.model.pods[name].group.as_ref() == Some(&group.name),
        None => name == one.key.name,
    };
    // Pods on deleted nodes do not matter: nothing fits there.
    let is_placed =
        |name: &str| run.model.pods[name].node.as_ref().is_some_and(|node| run.model.nodes.contains_key(node));
    let pods: Vec<_> = run.model.pods.keys().filter(|name| is_of_blocker(name) && is_placed(name)).cloned().collect();
    assert_eq!(pods.len(), one.pods_count);
    pods.iter().for_each(|name| run.world.delete(name));
}

/// Adds nodes like an existing one.
fn add_nodes(run: &mut PropertyRun, count: usize, like: &str, domain: Option<&ChosenDomain>) {
    let model = &run.model.nodes[like];
    let rack = domain.map(|domain| domain.value.clone()).or_else(|| model.rack.clone());
    let rack = rack.map(|rack| format!(" rack={rack}")).unwrap_or_default();
    assert!(!model.tainted);
    let text = format!("gpu={} pods={}{rack}", model.gpu, model.pods);
    (0..count).for_each(|n| run.world.apply(&format!("node new{n} {text}")));
}

/// No node has enough of the one resource that pods request here.
fn check_shortfalls(run: &PropertyRun, shortfalls: &[ResourceShortfall], sizes: &[i64]) {
    let largest = run.model.nodes.values().map(|node| node.gpu).max().unwrap_or(0);
    assert_eq!((shortfalls.len(), shortfalls[0].largest), (1, largest));
    assert!(shortfalls[0].wanted > largest && sizes.contains(&shortfalls[0].wanted));
}

/// Checks every remedy for one refusal, each on a cluster with the same history.
fn check_remedies(steps: &[PropertyStep], group: &str, terms: &ModelGroup, refusal: &Refusal) {
    let RemedyStatus::Found(report) = &refusal.remedies else { panic!("no remedies") };
    let message = refusal.message();
    let key = terms.in_rack.then_some("rack");
    for remedy in &report.remedies {
        let mut run = PropertyRun::again(steps);
        let is_correct = match remedy {
            Remedy::LowerMinCount { to, is_largest } => {
                let larger = to + 1;
                let larger_fits = || fits(&mut PropertyRun::again(steps), group, Some(larger), key);
                assert!(!is_largest || !larger_fits(), "{larger} fit as well: {message}");
                fits(&mut run, group, Some(*to), key)
            }
            Remedy::OtherKey { to, .. } => to != "rack" && may_fit(&mut run, group, terms.min_count, Some(to)),
            Remedy::NoKey { .. } => may_fit(&mut run, group, terms.min_count, None),
            Remedy::WaitFor { blockers, .. } => {
                for spared in blockers.iter().filter(|_| !report.truncated && key.is_none()) {
                    let mut run = PropertyRun::again(steps);
                    blockers.iter().filter(|one| *one != spared).for_each(|one| leave(&mut run, one));
                    assert!(!fits(&mut run, group, terms.min_count, key), "{spared:?} can stay: {message}");
                }
                blockers.iter().for_each(|one| leave(&mut run, one));
                may_fit(&mut run, group, terms.min_count, key)
            }
            Remedy::ReservationEnds { .. } => panic!("nothing is reserved here"),
            Remedy::AddNodes { count, like, domain } => {
                add_nodes(&mut run, *count, like, domain.as_ref());
                may_fit(&mut run, group, terms.min_count, key)
            }
            Remedy::LargerNodes { shortfalls } => {
                check_shortfalls(&run, shortfalls, &run.model.pending_sizes(group));
                true
            }
        };
        assert!(is_correct, "{remedy:?}: {message}");
    }
}

/// The same for a pod without a group.
fn check_pod_remedies(steps: &[PropertyStep], pod: &str, refusal: &Refusal) {
    let RemedyStatus::Found(report) = &refusal.remedies else { panic!("no remedies") };
    for remedy in &report.remedies {
        let mut run = PropertyRun::again(steps);
        match remedy {
            Remedy::WaitFor { blockers, .. } => blockers.iter().for_each(|one| leave(&mut run, one)),
            Remedy::AddNodes { count, like, domain } => add_nodes(&mut run, *count, like, domain.as_ref()),
            Remedy::LargerNodes { shortfalls } => {
                check_shortfalls(&run, shortfalls, &[run.model.pods[pod].gpu]);
                continue;
            }
            other => panic!("no remedy for a pod: {other:?}"),
        }
        assert!(pod_fits(&mut run, pod), "{remedy:?}: {}", refusal.message());
    }
}

/// The reported numbers of fitting and missing pods in the nearest domain are correct.
fn check_nearest(run: &PropertyRun, group: &str, refusal: &Refusal) {
    let Some(nearest) = &refusal.nearest else { return };
    let inside = run.model.nodes.iter().filter(|(_, node)| node.rack.as_ref() == Some(&nearest.value));
    let free: Vec<_> = inside.map(|(name, node)| run.model.free_on(name, node)).collect();
    assert_eq!(nearest.nodes_count, free.len());
    let most = most_that_fit(&run.model.pending_sizes(group), free);
    assert!(nearest.fits_count <= most, "{}", refusal.message());
    assert!(run.model.is_mixed(group) || nearest.fits_count == most, "{}", refusal.message());
    let required = refusal.wanted_count.saturating_sub(refusal.placed_count).max(1);
    assert_eq!(nearest.missing_count, required.saturating_sub(nearest.fits_count));
}

proptest! {
    #![proptest_config(property_config(50))]

    /// Lower minCount: it fits, and with one more it does not. Another key, no key: it fits. Wait: once the blockers
    /// are gone it fits, and none of them can stay. More nodes: with them it fits. Larger nodes: no existing one has
    /// enough.
    #[test]
    fn every_remedy_is_correct(steps in steps()) {
        let mut run = PropertyRun::again(&steps);
        for group in run.model.groups.keys().cloned().collect::<Vec<_>>() {
            let Some(refusal) = explain(&mut run, &unit(&group)).and_then(|explained| explained.refusal) else { continue };
            if refusal.remedies != RemedyStatus::NotSearched {
                check_nearest(&run, &group, &refusal);
                check_remedies(&steps, &group, &run.model.groups[&group], &refusal);
            }
        }
        let singles = run.model.pods.iter().filter(|(_, pod)| pod.group.is_none() && pod.node.is_none() && !pod.succeeded);
        for pod in singles.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            let explanation = explain(&mut run, &Unit::Pod(ObjectKey::new("ns", pod.as_str())));
            if let Some(refusal) = explanation.and_then(|explanation| explanation.refusal) {
                check_pod_remedies(&steps, &pod, &refusal);
            }
        }
    }
}

proptest! {
    #![proptest_config(property_config(50))]

    /// Queries in between, about tracked and untracked objects, do not change any decision.
    #[test]
    fn queries_change_nothing(steps in steps()) {
        let quiet = PropertyRun::again(&steps);
        let mut queried = PropertyRun::again(&[]);
        queried.log.clear();
        for step in &steps {
            queried.apply(step);
            queried.world.core.cache_placement_reports(queried.world.now, 2);
            queried.world.core.find_remedies(queried.world.now, 2);
            for queued in queried.world.core.queue() {
                assert!(explain(&mut queried, &queued.unit).is_some_and(|explanation| explanation.queued == Some(queued)));
            }
            let pods: Vec<String> = queried.model.pods.keys().cloned().collect();
            for pod in pods {
                let explanation = explain(&mut queried, &Unit::Pod(ObjectKey::new("ns", pod.as_str())));
                let is_placed = queried.model.pods[&pod].node.is_some();
                // A completed pod without a group is not tracked. About a pod whose node is gone nothing is known.
                prop_assert!(explanation.is_some() || !is_placed);
            }
            let groups: Vec<String> = queried.model.groups.keys().cloned().collect();
            groups.iter().for_each(|group| drop(explain(&mut queried, &unit(group))));
            queried.world.core.assert_consistent();
        }
        queried.apply(&PropertyStep::Decide { bind: true });
        prop_assert_eq!(queried.log, quiet.log);
    }

    /// Queries work with reservations, too.
    #[test]
    fn queries_work_while_nodes_are_reserved(steps in steps()) {
    let pause = std::time::Duration::from_secs(100);
    let config = Config { reserve_after: Some(pause), max_reservation: pause, ..plain() };
        let mut run = PropertyRun::with(config, &steps);
        for group in run.model.groups.keys().cloned().collect::<Vec<_>>() {
            explain(&mut run, &unit(&group));
            run.world.core.assert_consistent();
        }
        run.apply(&PropertyStep::Decide { bind: true });
    }
}
