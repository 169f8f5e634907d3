//! Explanations and the queue as JSON documents, for `/explain`, `/queue` and `phalanx explain` alike. Pure.

use api::Revision;
use api::clock::rfc3339;
use api::views::ObjectKey;
use scheduler_core::placement_report::DomainFit;
use scheduler_core::{
    ChosenDomain, Histogram, NodeChoice, PlacementReport, QueuedUnit, Refusal, Remedy, RemedyReport, RemedyStatus,
    RootOwner, Unit, UnitExplanation,
};
use serde_json::{Value, json};

/// Of documents of ours.
pub const API_VERSION: &str = "phalanx.dev/v1alpha1";

/// What the scheduler says about an object: one entry for each unit of it. `cut`: there are more. It rests on `revision` of
/// the pods or a later one.
pub fn explanation(revision: Revision, kind: &str, key: &ObjectKey, explained: &[UnitExplanation], cut: bool) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "SchedulerExplanation",
        "resourceVersion": revision.to_string(),
        "about": {"kind": kind, "namespace": key.namespace, "name": key.name},
        "units": explained.iter().map(unit).collect::<Vec<_>>(),
        "cut": cut,
    })
}

/// The queue, as of `revision` of the pods or a later one. `reason` says why a unit waits, if that is known.
pub fn queue(revision: Revision, units: &[QueuedUnit], reason: impl Fn(&Unit) -> Option<String>) -> Value {
    let entries = units.iter().map(|queued| {
        let mut entry = queue_position(queued);
        entry["unit"] = name(&queued.unit);
        entry["reason"] = json!(reason(&queued.unit));
        entry
    });
    let units = entries.collect::<Vec<_>>();
    json!({
        "apiVersion": API_VERSION, "kind": "SchedulerQueue", "resourceVersion": revision.to_string(), "units": units,
    })
}

/// One unit of an explanation, with the same in words.
pub fn unit(explained: &UnitExplanation) -> Value {
    let state = match explained {
        UnitExplanation { exclusion: Some(_), .. } => "NotPlacedByUs",
        UnitExplanation { fits_now: true, .. } => "FitsNow",
        UnitExplanation { refusal: Some(_), .. } => "Waits",
        UnitExplanation { placement: Some(_), .. } => "Placed",
        _ => "NothingToDo",
    };
    json!({
        "unit": name(&explained.unit),
        "state": state,
        "why": explained.exclusion,
        "queue": explained.queued.as_ref().map(queue_position),
        "refusal": explained.refusal.as_ref().map(refusal),
        "placed": explained.placement.as_ref().map(placement_report),
        "text": explained.lines(),
    })
}

fn name(unit: &Unit) -> Value {
    let kind = match unit {
        Unit::Pod(_) => "Pod",
        Unit::Group(_) => "PodGroup",
    };
    json!({"kind": kind, "namespace": unit.key().namespace, "name": unit.key().name})
}

fn queue_position(queued: &QueuedUnit) -> Value {
    json!({
        "state": queued.state.name(),
        "position": queued.position,
        "priority": queued.priority,
        "pods": queued.pods_count,
        "tries": queued.tries_count,
        "since": queued.since.map(rfc3339),
        "nextTry": queued.next_try.map(rfc3339),
    })
}

fn refusal(refusal: &Refusal) -> Value {
    let domains = refusal.domains.iter().map(|domain| {
        json!({
            "value": domain.value, "nodes": domain.nodes_count, "fits": domain.slots_count,
            "reasons": reasons(&domain.reasons),
        })
    });
    let nearest = refusal.nearest.as_ref().map(|nearest| {
        json!({
            "key": nearest.key, "value": nearest.value, "nodes": nearest.nodes_count, "fits": nearest.fits_count,
            "missing": nearest.missing_count, "pinned": nearest.pinned, "reasons": reasons(&nearest.reasons),
        })
    });
    let advice = match &refusal.remedies {
        RemedyStatus::Found(advice) => Some(&**advice),
        RemedyStatus::NotSearched | RemedyStatus::Pending => None,
    };
    json!({
        "message": refusal.plain_message(),
        "podMessage": refusal.pod_message(),
        "wanted": refusal.wanted_count,
        "pods": refusal.pods_count,
        "placed": refusal.placed_count,
        "fits": refusal.fits_count,
        "nodes": refusal.nodes_count,
        "proven": refusal.proven,
        "couldWait": refusal.can_fit_later,
        "reasons": reasons(&refusal.reasons),
        "nearest": nearest,
        "domains": domains.collect::<Vec<_>>(),
        "waysOut": advice.map(|advice| advice.remedies.iter().map(remedy).collect::<Vec<_>>()),
        "waysOutCut": advice.is_some_and(|advice: &RemedyReport| advice.truncated),
    })
}

fn reasons(histogram: &Histogram) -> Value {
    json!(histogram.0)
}

fn remedy(way: &Remedy) -> Value {
    let mut document = match way {
        Remedy::LowerMinCount { to, is_largest } => json!({"minCount": to, "isLargest": is_largest}),
        Remedy::OtherKey { from, to, value, recreate } => {
            json!({"from": from, "key": to, "value": value, "recreate": root_owner(recreate)})
        }
        Remedy::NoKey { from, recreate } => json!({"from": from, "recreate": root_owner(recreate)}),
        Remedy::WaitFor { blockers: leaving, domain } => {
            let leaving = leaving.iter().map(|one| {
                json!({
                    "kind": one.kind, "namespace": one.key.namespace, "name": one.key.name, "pods": one.pods_count,
                    "podGroup": one.group.as_ref().map(|group| &group.name),
                })
            });
            json!({"leaving": leaving.collect::<Vec<_>>(), "domain": domain.as_ref().map(in_domain)})
        }
        Remedy::ReservationEnds { group, until } => {
            json!({"namespace": group.namespace, "podGroup": group.name, "until": rfc3339(*until)})
        }
        Remedy::AddNodes { count, like, domain } => {
            json!({"count": count, "like": like, "domain": domain.as_ref().map(in_domain)})
        }
        Remedy::LargerNodes { shortfalls: lacking } => {
            let lacking = lacking.iter().map(|lacking| {
                json!({
                    "resource": lacking.resource, "wanted": lacking.wanted_text(), "largest": lacking.largest_text(),
                })
            });
            json!({"lacking": lacking.collect::<Vec<_>>()})
        }
    };
    document["type"] = json!(way.kind());
    document["text"] = json!(way.text());
    document
}

fn root_owner(origin: &RootOwner) -> Value {
    json!({"kind": origin.kind, "namespace": origin.key.namespace, "name": origin.key.name})
}

fn in_domain(domain: &ChosenDomain) -> Value {
    json!({"key": domain.key, "value": domain.value})
}

fn placement_report(why: &PlacementReport) -> Value {
    let domain = why.domain.as_ref().map(|domain| {
        json!({
            "key": domain.key, "value": domain.value, "room": domain_fit(domain.fit), "domains": domain.domains_count,
            "feasible": domain.feasible_count,
            "nextBest": domain.next_best.as_ref().map(|(value, next)| json!({"value": value, "room": domain_fit(*next)})),
        })
    });
    json!({
        "pods": why.pods_count,
        "domain": domain,
        "within": why.within.as_ref().map(in_domain),
        "nodes": why.nodes.iter().map(node).collect::<Vec<_>>(),
        "nodesChosen": why.nodes_count,
        "nodesFeasible": why.feasible_count,
        "nextBest": why.next_best.as_ref().map(node),
        "decidedBy": why.decided_by,
        "keptSince": why.recorded_at.map(rfc3339),
    })
}

fn domain_fit(room: DomainFit) -> Value {
    json!({"fits": room.fits_count, "spare": room.spare_count})
}

fn node(choice: &NodeChoice) -> Value {
    let points: serde_json::Map<String, Value> =
        choice.points.iter().map(|(name, points)| (name.clone(), json!(points))).collect();
    json!({"node": choice.node, "pods": choice.pods_count, "score": choice.total, "points": points})
}
