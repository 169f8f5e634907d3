//! The wire form of the query API.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::{ErrorResponse, QueryErrorCode};
use super::types::*;
use super::*;

#[test]
fn explain_requests_name_a_kind_and_an_object() {
    let kind_message = "parameter kind: must be job, podgroup or pod";
    for (parameters, want) in [
        ("kind=job&name=a", Ok("job default/a")),
        ("name=a&kind=PodGroup&namespace=n", Ok("podgroup n/a")),
        ("kind=pods&name=a&namespace=", Ok("pod default/a")),
        ("kind=po&name=a", Ok("pod default/a")),
        ("kind=node&name=a", Err(kind_message)),
        ("kind=pod", Err("parameter name: required")),
        ("", Err(kind_message)),
    ] {
        let parsed = parse_target(parameters).map(|target| target.to_string());
        assert_eq!(parsed, want.map(str::to_owned), "{parameters}");
    }
}

fn time() -> Option<api::Timestamp> {
    Some("2026-11-16T10:49:48Z".parse().unwrap())
}

fn unit() -> UnitReference {
    UnitReference { kind: UnitKind::PodGroup, namespace: "ns".to_owned(), name: "g".to_owned() }
}

fn position() -> QueuePosition {
    let (since, until) = (time().unwrap(), time().unwrap());
    QueuePosition {
        state: QueueState::Waiting,
        position: 1,
        priority: -7,
        pods: 32,
        attempts: 2,
        since: Some(since),
        next_attempt: None,
        reservation: Some(UnitReservation { since, until, pods: 32, free_pods: 3, nodes: 4 }),
    }
}

fn queue() -> QueueResponse {
    let (refusal_code, message) = (Some(RefusalCode::DoesNotFit), Some("gang of 32 does not fit".to_owned()));
    QueueResponse {
        api_version: API_VERSION.to_owned(),
        kind: "SchedulerQueue".to_owned(),
        resource_version: "1042".to_owned(),
        units: vec![QueueItem { unit: unit(), position: position(), refusal_code, message }],
    }
}

fn actions() -> Vec<RemedyAction> {
    let recreate = || ObjectIdentity { kind: "job".to_owned(), namespace: "ns".to_owned(), name: "j".to_owned() };
    let domain = || Some(TopologyDomain { key: "rack".to_owned(), value: "r1".to_owned() });
    let (from, to, value) = ("rack".to_owned(), "zone".to_owned(), "z1".to_owned());
    let shortfall =
        ShortfallReport { resource: "cpu".to_owned(), requested: "64".to_owned(), largest: "32".to_owned() };
    let blocker = BlockerReport { object: recreate(), pods: 8, pod_group: Some("g2".to_owned()) };
    let (namespace, pod_group, pod, until) = ("ns".to_owned(), Some("g3".to_owned()), None, time().unwrap());
    vec![
        RemedyAction::LowerMinCount { min_count: 8, is_largest: true },
        RemedyAction::ChangeTopologyKey { from: from.clone(), to, value, recreate: recreate() },
        RemedyAction::RemoveTopologyKey { from, recreate: recreate() },
        RemedyAction::WaitFor { blockers: vec![blocker], domain: domain() },
        RemedyAction::ReservationEnds { namespace, pod_group, pod, until },
        RemedyAction::AddNodes { count: 3, like: "node-0".to_owned(), domain: None },
        RemedyAction::LargerNodes { shortfalls: vec![shortfall] },
    ]
}

fn refusal() -> RefusalReport {
    let reasons = BTreeMap::from([("Insufficient cpu".to_owned(), 8)]);
    RefusalReport {
        code: RefusalCode::DoesNotFit,
        message: "gang of 32 does not fit".to_owned(),
        pod_message: "0/16 nodes are available".to_owned(),
        required: 32,
        pods: 32,
        placed: 0,
        fits: 8,
        nodes: 16,
        proven: true,
        can_fit_later: true,
        reasons: reasons.clone(),
        nearest: Some(NearestDomainReport {
            key: "rack".to_owned(),
            value: "r0".to_owned(),
            nodes: 8,
            fits: 8,
            missing: 24,
            pinned: false,
            reasons: reasons.clone(),
        }),
        domains: vec![DomainSlots { value: "r0".to_owned(), nodes: 8, fits: 8, reasons }],
        remedies: Some(actions().into_iter().map(|action| RemedyItem { action, text: "do it".to_owned() }).collect()),
        remedies_truncated: true,
    }
}

fn placement() -> PlacementDetails {
    let slots = SlotCounts { fits: 16, spare: 48 };
    let points = BTreeMap::from([("NodeResourcesFit".to_owned(), 99)]);
    let node = NodeScore { node: "node-0".to_owned(), pods: 8, score: 99, points };
    PlacementDetails {
        pods: 16,
        domain: Some(DomainComparison {
            key: "rack".to_owned(),
            value: "r0".to_owned(),
            slots,
            domains: 2,
            feasible: 2,
            next_best: Some(AlternativeDomain { value: "r1".to_owned(), slots }),
        }),
        within: Some(TopologyDomain { key: "rack".to_owned(), value: "r0".to_owned() }),
        nodes: vec![node.clone()],
        nodes_chosen: 2,
        nodes_feasible: 8,
        next_best: Some(node),
        decided_by: Some("NodeResourcesFit".to_owned()),
        recorded_at: time(),
    }
}

fn explanation() -> ExplainResponse {
    let waiting = UnitReport {
        unit: unit(),
        state: UnitState::Waiting,
        exclusion_reason: None,
        exclusion_message: None,
        queue: Some(position()),
        refusal: Some(refusal()),
        placement: Some(placement()),
        text: vec!["gang of 32 does not fit".to_owned()],
    };
    let excluded = UnitReport {
        state: UnitState::Excluded,
        exclusion_reason: Some(ExclusionCode::Gated),
        exclusion_message: Some("it has scheduling gates".to_owned()),
        queue: None,
        refusal: None,
        placement: None,
        ..waiting.clone()
    };
    ExplainResponse {
        api_version: API_VERSION.to_owned(),
        kind: "SchedulerExplanation".to_owned(),
        resource_version: "1042".to_owned(),
        target: ExplainTarget { kind: TargetKind::Job, namespace: "ns".to_owned(), name: "j".to_owned() },
        units: vec![waiting, excluded],
        truncated: false,
    }
}

/// Adds a field with an unknown name to every object of the document.
fn with_unknown_fields(document: &mut Value) {
    match document {
        Value::Object(fields) => {
            let is_map = fields.values().all(Value::is_number);
            fields.values_mut().for_each(with_unknown_fields);
            // Maps from names to numbers have no field names.
            if !is_map {
                fields.insert("addedLater".to_owned(), json!({"x": [1]}));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(with_unknown_fields),
        _ => {}
    }
}

fn assert_round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(response: &T) {
    let text = serde_json::to_string(response).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), response, "{text}");
    let mut document = serde_json::to_value(response).unwrap();
    with_unknown_fields(&mut document);
    assert_eq!(&serde_json::from_value::<T>(document.clone()).unwrap(), response, "{document:#}");
}

#[test]
fn responses_survive_the_wire_and_clients_ignore_unknown_fields() {
    assert_round_trip(&queue());
    assert_round_trip(&explanation());
    for code in QueryErrorCode::ALL {
        assert_round_trip(&ErrorResponse::new(code, "why"));
    }
}

#[test]
fn codes_of_a_newer_version_are_read_as_unknown() {
    let mut document = serde_json::to_value(explanation()).unwrap();
    let unit = &mut document["units"][0];
    unit["state"] = "Preempting".into();
    unit["queue"]["state"] = "Parked".into();
    unit["refusal"]["code"] = "Quota".into();
    unit["refusal"]["remedies"] = json!([{"type": "RaiseQuota", "quota": "q", "text": "raise quota q"}]);
    let response: ExplainResponse = serde_json::from_value(document).unwrap();
    let unit = &response.units[0];
    let refusal = unit.refusal.as_ref().unwrap();
    assert_eq!((unit.state, refusal.code), (UnitState::Unknown, RefusalCode::Unknown));
    assert_eq!(unit.queue.as_ref().unwrap().state, QueueState::Unknown);
    let remedy = &refusal.remedies.as_ref().unwrap()[0];
    assert_eq!((&remedy.action, remedy.text.as_str()), (&RemedyAction::Unknown, "raise quota q"));
}

#[test]
fn the_wire_form_has_camel_case_fields_and_codes() {
    let queue = serde_json::to_value(queue()).unwrap();
    let want = json!({
        "unit": {"kind": "PodGroup", "namespace": "ns", "name": "g"}, "state": "Waiting", "position": 1, "priority": -7,
        "pods": 32, "attempts": 2, "since": "2026-11-16T10:49:48Z", "nextAttempt": null, "refusalCode": "DoesNotFit",
        "message": "gang of 32 does not fit",
        "reservation": {
            "since": "2026-11-16T10:49:48Z", "until": "2026-11-16T10:49:48Z", "pods": 32, "freePods": 3, "nodes": 4,
        },
    });
    assert_eq!(queue["units"][0], want);
    let explanation = serde_json::to_value(explanation()).unwrap();
    assert_eq!(explanation["target"], json!({"kind": "Job", "namespace": "ns", "name": "j"}));
    let remedy = &explanation["units"][0]["refusal"]["remedies"][0];
    assert_eq!(*remedy, json!({"type": "LowerMinCount", "minCount": 8, "isLargest": true, "text": "do it"}));
    let error = serde_json::to_value(ErrorResponse::new(QueryErrorCode::UnitNotFound, "pod a/b: not known")).unwrap();
    let want = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "pod a/b: not known",
        "reason": "UnitNotFound", "code": 404,
    });
    assert_eq!(error, want);
}

#[test]
fn error_codes_are_found_by_the_reason_of_a_status() {
    for code in QueryErrorCode::ALL {
        assert_eq!(serde_json::to_value(code).unwrap(), code.name());
        assert_eq!(QueryErrorCode::from_reason(code.name()), Some(code));
    }
    assert_eq!(QueryErrorCode::from_reason("NotFound"), None);
}
