//! Builds the responses of the query API from the core's values. Pure.

use std::collections::BTreeMap;

use api::views::ObjectKey;
use api::{Revision, Timestamp};
use scheduler_core::placement_report::DomainFit;
use scheduler_core::{
    Blocker, ChosenDomain, DomainChoice, ExclusionReason, NearestDomain, NodeChoice, PlacementReport, QueueStatus,
    QueuedUnit, Refusal, RefusalCause, Remedy, RemedyStatus, ReservationReport, RootOwner, Unit, UnitExplanation,
};

use super::types::{
    API_VERSION, AlternativeDomain, BlockerReport, DomainComparison, DomainSlots, ExclusionCode, ExplainResponse,
    ExplainTarget, NearestDomainReport, NodeScore, ObjectIdentity, PlacementDetails, QueueItem, QueuePosition,
    QueueResponse, QueueState, RefusalCode, RefusalReport, RemedyAction, RemedyItem, ShortfallReport, SlotCounts,
    TopologyDomain, UnitKind, UnitReference, UnitReport, UnitReservation, UnitState,
};

/// The response of `/queue`. `refusals` has the refused units.
pub fn queue_response(revision: Revision, units: &[QueuedUnit], refusals: &BTreeMap<Unit, Refusal>) -> QueueResponse {
    let item = |queued: &QueuedUnit| {
        let refusal = refusals.get(&queued.unit);
        QueueItem {
            unit: unit_reference(&queued.unit),
            position: queue_position(queued),
            refusal_code: refusal.map(|refusal| refusal_code(&refusal.cause)),
            message: refusal.map(Refusal::plain_message),
        }
    };
    QueueResponse {
        api_version: API_VERSION.to_owned(),
        kind: "SchedulerQueue".to_owned(),
        resource_version: revision.to_string(),
        units: units.iter().map(item).collect(),
    }
}

/// The response of `/explain`. `truncated`: the object has more units than `explanations`.
pub fn explain_response(
    revision: Revision,
    target: ExplainTarget,
    explanations: &[UnitExplanation],
    truncated: bool,
) -> ExplainResponse {
    ExplainResponse {
        api_version: API_VERSION.to_owned(),
        kind: "SchedulerExplanation".to_owned(),
        resource_version: revision.to_string(),
        target,
        units: explanations.iter().map(unit_report).collect(),
        truncated,
    }
}

/// The report of one unit.
pub fn unit_report(explanation: &UnitExplanation) -> UnitReport {
    let state = match explanation {
        UnitExplanation { exclusion: Some(_), .. } => UnitState::Excluded,
        UnitExplanation { fits_now: true, .. } => UnitState::FitsNow,
        UnitExplanation { refusal: Some(_), .. } => UnitState::Waiting,
        UnitExplanation { placement: Some(_), .. } => UnitState::Placed,
        _ => UnitState::Idle,
    };
    UnitReport {
        unit: unit_reference(&explanation.unit),
        state,
        exclusion_reason: explanation.exclusion.map(exclusion_code),
        exclusion_message: explanation.exclusion.map(|reason| reason.text().to_owned()),
        queue: explanation.queued.as_ref().map(queue_position),
        refusal: explanation.refusal.as_ref().map(refusal_report),
        placement: explanation.placement.as_ref().map(placement_details),
        text: explanation.lines(),
    }
}

fn unit_reference(unit: &Unit) -> UnitReference {
    let kind = match unit {
        Unit::Pod(_) => UnitKind::Pod,
        Unit::Group(_) => UnitKind::PodGroup,
    };
    let ObjectKey { namespace, name } = unit.key().clone();
    UnitReference { kind, namespace, name }
}

fn queue_position(queued: &QueuedUnit) -> QueuePosition {
    let state = match queued.state {
        QueueStatus::Active => QueueState::Active,
        QueueStatus::BackOff => QueueState::BackOff,
        QueueStatus::Waiting => QueueState::Waiting,
        QueueStatus::Incomplete => QueueState::Incomplete,
        QueueStatus::Unsupported => QueueState::Unsupported,
    };
    QueuePosition {
        state,
        position: queued.position,
        priority: queued.priority,
        pods: queued.pods_count,
        attempts: queued.tries_count,
        since: queued.since.map(whole_seconds),
        next_attempt: queued.next_try.map(whole_seconds),
        reservation: queued.reservation.as_ref().map(unit_reservation),
    }
}

fn unit_reservation(report: &ReservationReport) -> UnitReservation {
    let ReservationReport { since, until, pods_count, free_pods_count, nodes_count } = *report;
    UnitReservation {
        since: whole_seconds(since),
        until: whole_seconds(until),
        pods: pods_count,
        free_pods: free_pods_count,
        nodes: nodes_count,
    }
}

fn exclusion_code(reason: ExclusionReason) -> ExclusionCode {
    match reason {
        ExclusionReason::Deleting => ExclusionCode::Deleting,
        ExclusionReason::Gated => ExclusionCode::Gated,
        ExclusionReason::OtherScheduler => ExclusionCode::OtherScheduler,
        ExclusionReason::OtherOwner => ExclusionCode::OtherOwner,
        ExclusionReason::PriorityMismatch => ExclusionCode::PriorityMismatch,
        ExclusionReason::Unsupported => ExclusionCode::UnsupportedTerms,
    }
}

fn refusal_code(cause: &RefusalCause) -> RefusalCode {
    match cause {
        RefusalCause::DoesNotFit => RefusalCode::DoesNotFit,
        RefusalCause::Incomplete => RefusalCode::Incomplete,
        RefusalCause::NoPodGroup => RefusalCode::NoPodGroup,
        RefusalCause::NoParent { .. } => RefusalCode::NoParent,
        RefusalCause::ParentNotBasic { .. } => RefusalCode::ParentNotBasic,
        RefusalCause::ParentCycle { .. } => RefusalCode::ParentCycle,
        RefusalCause::NoDomain { .. } => RefusalCode::NoDomain,
        RefusalCause::MembersSplit { .. } => RefusalCode::MembersSplit,
        RefusalCause::Gated => RefusalCode::Gated,
        RefusalCause::UnsupportedTerms { .. } => RefusalCode::UnsupportedTerms,
        RefusalCause::OtherOwner { .. } => RefusalCode::OtherOwner,
        RefusalCause::PriorityMismatch { .. } => RefusalCode::PriorityMismatch,
    }
}

fn refusal_report(refusal: &Refusal) -> RefusalReport {
    let domains = refusal.domains.iter().map(|domain| DomainSlots {
        value: domain.value.clone(),
        nodes: domain.nodes_count,
        fits: domain.fits_count,
        reasons: domain.reasons.by_text(),
    });
    let found = match &refusal.remedies {
        RemedyStatus::Found(report) => Some(report),
        RemedyStatus::NotSearched | RemedyStatus::Pending => None,
    };
    RefusalReport {
        code: refusal_code(&refusal.cause),
        message: refusal.plain_message(),
        pod_message: refusal.pod_message(),
        required: refusal.wanted_count,
        pods: refusal.pods_count,
        placed: refusal.placed_count,
        fits: refusal.fits_count,
        nodes: refusal.nodes_count,
        proven: refusal.proven,
        can_fit_later: refusal.can_fit_later,
        reasons: refusal.reasons.by_text(),
        nearest: refusal.nearest.as_ref().map(nearest_domain),
        domains: domains.collect(),
        remedies: found.map(|report| report.remedies.iter().map(remedy_item).collect()),
        remedies_truncated: found.is_some_and(|report| report.truncated),
    }
}

fn nearest_domain(nearest: &NearestDomain) -> NearestDomainReport {
    NearestDomainReport {
        key: nearest.key.clone(),
        value: nearest.value.clone(),
        nodes: nearest.nodes_count,
        fits: nearest.fits_count,
        missing: nearest.missing_count,
        pinned: nearest.pinned,
        reasons: nearest.reasons.by_text(),
    }
}

fn remedy_item(remedy: &Remedy) -> RemedyItem {
    RemedyItem { action: remedy_action(remedy), text: remedy.text() }
}

fn remedy_action(remedy: &Remedy) -> RemedyAction {
    match remedy {
        Remedy::LowerMinCount { to, is_largest } => {
            RemedyAction::LowerMinCount { min_count: *to, is_largest: *is_largest }
        }
        Remedy::OtherKey { from, to, value, recreate } => RemedyAction::ChangeTopologyKey {
            from: from.clone(),
            to: to.clone(),
            value: value.clone(),
            recreate: root_owner(recreate),
        },
        Remedy::NoKey { from, recreate } => {
            RemedyAction::RemoveTopologyKey { from: from.clone(), recreate: root_owner(recreate) }
        }
        Remedy::WaitFor { blockers, domain } => RemedyAction::WaitFor {
            blockers: blockers.iter().map(blocker_report).collect(),
            domain: domain.as_ref().map(topology_domain),
        },
        Remedy::ReservationEnds { unit, until } => {
            let ObjectKey { namespace, name } = unit.key().clone();
            let (pod_group, pod) = match unit {
                Unit::Group(_) => (Some(name), None),
                Unit::Pod(_) => (None, Some(name)),
            };
            RemedyAction::ReservationEnds { namespace, pod_group, pod, until: whole_seconds(*until) }
        }
        Remedy::AddNodes { count, like, domain } => {
            RemedyAction::AddNodes { count: *count, like: like.clone(), domain: domain.as_ref().map(topology_domain) }
        }
        Remedy::LargerNodes { shortfalls } => {
            let shortfalls = shortfalls.iter().map(|shortfall| ShortfallReport {
                resource: shortfall.resource.clone(),
                requested: shortfall.wanted_text(),
                largest: shortfall.largest_text(),
            });
            RemedyAction::LargerNodes { shortfalls: shortfalls.collect() }
        }
    }
}

fn object_identity(kind: &str, key: &ObjectKey) -> ObjectIdentity {
    ObjectIdentity { kind: kind.to_owned(), namespace: key.namespace.clone(), name: key.name.clone() }
}

fn root_owner(owner: &RootOwner) -> ObjectIdentity {
    object_identity(&owner.kind, &owner.key)
}

fn blocker_report(blocker: &Blocker) -> BlockerReport {
    BlockerReport {
        object: object_identity(&blocker.kind, &blocker.key),
        pods: blocker.pods_count,
        pod_group: blocker.group.as_ref().map(|group| group.name.clone()),
    }
}

fn topology_domain(domain: &ChosenDomain) -> TopologyDomain {
    TopologyDomain { key: domain.key.clone(), value: domain.value.clone() }
}

fn placement_details(report: &PlacementReport) -> PlacementDetails {
    PlacementDetails {
        pods: report.pods_count,
        domain: report.domain.as_ref().map(domain_comparison),
        within: report.within.as_ref().map(topology_domain),
        nodes: report.nodes.iter().map(node_score).collect(),
        nodes_chosen: report.nodes_count,
        nodes_feasible: report.feasible_count,
        next_best: report.next_best.as_ref().map(node_score),
        decided_by: report.decided_by.clone(),
        recorded_at: report.recorded_at.map(whole_seconds),
    }
}

fn domain_comparison(choice: &DomainChoice) -> DomainComparison {
    let next_best = choice.next_best.as_ref();
    DomainComparison {
        key: choice.key.clone(),
        value: choice.value.clone(),
        slots: slot_counts(choice.fit),
        domains: choice.domains_count,
        feasible: choice.feasible_count,
        next_best: next_best.map(|next| AlternativeDomain { value: next.value.clone(), slots: slot_counts(next.fit) }),
    }
}

fn slot_counts(fit: DomainFit) -> SlotCounts {
    SlotCounts { fits: fit.fits_count, spare: fit.spare_count }
}

fn node_score(choice: &NodeChoice) -> NodeScore {
    NodeScore {
        node: choice.node.clone(),
        pods: choice.pods_count,
        score: choice.total,
        points: choice.points.iter().cloned().collect(),
    }
}

/// Times of the API have whole seconds, like `metav1.Time`.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
