//! What is said holds: whoever takes a way out is placed, and what is called missing is.

use std::sync::Arc;

use proptest::prelude::*;
use types::views::{ObjectKey, PodView};

use super::properties::{ModelGroup, PropertyRun, PropertyStep, most_that_fit, plain, steps};
use crate::{
    Blocker, ChosenDomain, Config, Decision, DecisionAction, Refusal, Remedy, RemedyStatus, ResourceShortfall, Unit,
    UnitExplanation,
};

fn unit(group: &str) -> Unit {
    Unit::Group(ObjectKey::new("ns", group))
}

/// All that is said about a unit.
fn explain(run: &mut PropertyRun, unit: &Unit) -> Option<UnitExplanation> {
    let name = &unit.key().name;
    let is_of = |pod: &&Arc<PodView>| pod.group_name() == Some(name) || pod.metadata.name == *name;
    let placed: Vec<_> =
        run.world.pods.values().filter(is_of).filter(|pod| pod.node_name().is_some()).cloned().collect();
    run.world.core.explain(unit, &placed)
}

/// Says the group anew, with these terms and before all others, and tells whether as many of its pods as it needs are
/// placed then: a gang that only starts its `minCount`, all others every pod that waits.
fn fits(run: &mut PropertyRun, group: &str, min_count: Option<usize>, key: Option<&str>) -> bool {
    let Some(Decision { action: DecisionAction::Bind(spots), unplaced, .. }) = decided(run, group, min_count, key)
    else {
        return false;
    };
    unplaced.is_none_or(|rest| rest.is_gang && rest.placed_count - spots.len() < rest.wanted_count)
}

/// The same, or some pods of several sizes are placed: a group that has started is given what fits first, though there is a
/// way for all.
fn may_fit(run: &mut PropertyRun, group: &str, min_count: Option<usize>, key: Option<&str>) -> bool {
    match run.model.is_mixed(group) {
        true => decided(run, group, min_count, key).is_some_and(|one| matches!(one.action, DecisionAction::Bind(_))),
        false => fits(run, group, min_count, key),
    }
}

/// What is decided about the group then.
fn decided(run: &mut PropertyRun, group: &str, min_count: Option<usize>, key: Option<&str>) -> Option<Decision> {
    let policy = min_count.map_or("basic".to_owned(), |count| format!("gang minCount={count}"));
    let key = key.map(|key| format!(" key={key}")).unwrap_or_default();
    run.world.apply(&format!("group {group} {policy} groupPriority=100{key}"));
    // Well before the time at which half-placed gangs and the like are looked at.
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

/// All pods of a unit that runs end.
fn leave(run: &mut PropertyRun, one: &Blocker) {
    let is_it = |name: &str| match &one.group {
        Some(group) => run.model.pods[name].group.as_ref() == Some(&group.name),
        None => name == one.key.name,
    };
    // Pods on nodes that are gone are of no concern: nothing fits there.
    let is_placed =
        |name: &str| run.model.pods[name].node.as_ref().is_some_and(|node| run.model.nodes.contains_key(node));
    let pods: Vec<_> = run.model.pods.keys().filter(|name| is_it(name) && is_placed(name)).cloned().collect();
    assert_eq!(pods.len(), one.pods_count);
    pods.iter().for_each(|name| run.world.delete(name));
}

/// More nodes like one there is.
fn add_nodes(run: &mut PropertyRun, count: usize, like: &str, domain: Option<&ChosenDomain>) {
    let model = &run.model.nodes[like];
    let rack = domain.map(|domain| domain.value.clone()).or_else(|| model.rack.clone());
    let rack = rack.map(|rack| format!(" rack={rack}")).unwrap_or_default();
    assert!(!model.tainted);
    let text = format!("gpu={} pods={}{rack}", model.gpu, model.pods);
    (0..count).for_each(|n| run.world.apply(&format!("node new{n} {text}")));
}

/// No node has so much of the one resource that pods ask for here.
fn check_shortfalls(run: &PropertyRun, lacking: &[ResourceShortfall], sizes: &[i64]) {
    let largest = run.model.nodes.values().map(|node| node.gpu).max().unwrap_or(0);
    assert_eq!((lacking.len(), lacking[0].largest), (1, largest));
    assert!(lacking[0].wanted > largest && sizes.contains(&lacking[0].wanted));
}

/// Checks every way out of one refusal, each on a cluster with the same history.
fn check_remedies(steps: &[PropertyStep], group: &str, terms: &ModelGroup, refusal: &Refusal) {
    let RemedyStatus::Found(advice) = &refusal.remedies else { panic!("ways out were asked for") };
    let said = refusal.message();
    let key = terms.in_rack.then_some("rack");
    for way in &advice.remedies {
        let mut run = PropertyRun::again(steps);
        let leads_out = match way {
            Remedy::LowerMinCount { to, is_largest } => {
                let larger = to + 1;
                let larger_fits = || fits(&mut PropertyRun::again(steps), group, Some(larger), key);
                assert!(!is_largest || !larger_fits(), "{larger} fit as well: {said}");
                fits(&mut run, group, Some(*to), key)
            }
            Remedy::OtherKey { to, .. } => to != "rack" && may_fit(&mut run, group, terms.min_count, Some(to)),
            Remedy::NoKey { .. } => may_fit(&mut run, group, terms.min_count, None),
            Remedy::WaitFor { blockers: leaving, .. } => {
                for spared in leaving.iter().filter(|_| !advice.truncated && key.is_none()) {
                    let mut run = PropertyRun::again(steps);
                    leaving.iter().filter(|one| *one != spared).for_each(|one| leave(&mut run, one));
                    assert!(!fits(&mut run, group, terms.min_count, key), "{spared:?} can stay: {said}");
                }
                leaving.iter().for_each(|one| leave(&mut run, one));
                may_fit(&mut run, group, terms.min_count, key)
            }
            Remedy::ReservationEnds { .. } => panic!("nothing is held here"),
            Remedy::AddNodes { count, like, domain } => {
                add_nodes(&mut run, *count, like, domain.as_ref());
                may_fit(&mut run, group, terms.min_count, key)
            }
            Remedy::LargerNodes { shortfalls: lacking } => {
                check_shortfalls(&run, lacking, &run.model.pending_sizes(group));
                true
            }
        };
        assert!(leads_out, "{way:?}: {said}");
    }
}

/// The same for a pod without a group.
fn check_pod_remedies(steps: &[PropertyStep], pod: &str, refusal: &Refusal) {
    let RemedyStatus::Found(advice) = &refusal.remedies else { panic!("ways out were asked for") };
    for way in &advice.remedies {
        let mut run = PropertyRun::again(steps);
        match way {
            Remedy::WaitFor { blockers: leaving, .. } => leaving.iter().for_each(|one| leave(&mut run, one)),
            Remedy::AddNodes { count, like, domain } => add_nodes(&mut run, *count, like, domain.as_ref()),
            Remedy::LargerNodes { shortfalls: lacking } => {
                check_shortfalls(&run, lacking, &[run.model.pods[pod].gpu]);
                continue;
            }
            other => panic!("no way for a pod: {other:?}"),
        }
        assert!(pod_fits(&mut run, pod), "{way:?}: {}", refusal.message());
    }
}

/// In the nearest domain as many fit as is said, and so many are missing.
fn check_nearest(run: &PropertyRun, group: &str, refusal: &Refusal) {
    let Some(nearest) = &refusal.nearest else { return };
    let inside = run.model.nodes.iter().filter(|(_, node)| node.rack.as_ref() == Some(&nearest.value));
    let rooms: Vec<_> = inside.map(|(name, node)| run.model.free_on(name, node)).collect();
    assert_eq!(nearest.nodes_count, rooms.len());
    let most = most_that_fit(&run.model.pending_sizes(group), rooms);
    assert!(nearest.fits_count <= most, "{}", refusal.message());
    assert!(run.model.is_mixed(group) || nearest.fits_count == most, "{}", refusal.message());
    let required = refusal.wanted_count.saturating_sub(refusal.placed_count).max(1);
    assert_eq!(nearest.missing_count, required.saturating_sub(nearest.fits_count));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..ProptestConfig::default() })]

    /// Lower minCount: it fits, and with one more it does not. Another key, no key: it fits. Wait: with those gone it fits,
    /// and none of them can stay. More nodes: with them it fits. Larger nodes: none there is has enough.
    #[test]
    fn every_way_out_leads_out(steps in steps()) {
        let mut run = PropertyRun::again(&steps);
        for group in run.model.groups.keys().cloned().collect::<Vec<_>>() {
            let Some(refusal) = explain(&mut run, &unit(&group)).and_then(|explained| explained.refusal) else { continue };
            if refusal.remedies != RemedyStatus::NotSearched {
                check_nearest(&run, &group, &refusal);
                check_remedies(&steps, &group, &run.model.groups[&group], &refusal);
            }
        }
        let alone = run.model.pods.iter().filter(|(_, pod)| pod.group.is_none() && pod.node.is_none() && !pod.succeeded);
        for pod in alone.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            let told = explain(&mut run, &Unit::Pod(ObjectKey::new("ns", pod.as_str())));
            if let Some(refusal) = told.and_then(|told| told.refusal) {
                check_pod_remedies(&steps, &pod, &refusal);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is asked in between, and whatever is there or not, decisions are the same as if nobody had asked.
    #[test]
    fn asking_changes_nothing(steps in steps()) {
        let quiet = PropertyRun::again(&steps);
        let mut asked = PropertyRun::again(&[]);
        asked.log.clear();
        for step in &steps {
            asked.apply(step);
            asked.world.core.cache_placement_reports(asked.world.now, 2);
            asked.world.core.find_remedies(asked.world.now, 2);
            for queued in asked.world.core.queue() {
                assert!(explain(&mut asked, &queued.unit).is_some_and(|told| told.queued == Some(queued)));
            }
            let pods: Vec<String> = asked.model.pods.keys().cloned().collect();
            for pod in pods {
                let told = explain(&mut asked, &Unit::Pod(ObjectKey::new("ns", pod.as_str())));
                let is_placed = asked.model.pods[&pod].node.is_some();
                // A pod without a group that ran to its end is forgotten; of one whose node is gone nothing can be said.
                prop_assert!(told.is_some() || !is_placed);
            }
            let groups: Vec<String> = asked.model.groups.keys().cloned().collect();
            groups.iter().for_each(|group| drop(explain(&mut asked, &unit(group))));
            asked.world.core.assert_consistent();
        }
        asked.apply(&PropertyStep::Decide { bind: true });
        prop_assert_eq!(asked.log, quiet.log);
    }

    /// With holds, too, nothing that is asked goes wrong.
    #[test]
    fn holds_can_be_asked_about(steps in steps()) {
        let hold = std::time::Duration::from_secs(100);
        let config = Config { reserve_after: Some(hold), max_reservation: hold, ..plain() };
        let mut run = PropertyRun::with(config, &steps);
        for group in run.model.groups.keys().cloned().collect::<Vec<_>>() {
            explain(&mut run, &unit(&group));
            run.world.core.assert_consistent();
        }
        run.apply(&PropertyStep::Decide { bind: true });
    }
}
