//! Explanations of objects.

#![allow(clippy::unwrap_used)]
use super::*;
use api::views::View;
use scheduler::query::types::{ExclusionCode, RefusalCode, RefusalReport, UnitReference, UnitReport, UnitState};

fn view<V: View>(document: Value) -> V {
    V::decode(document.to_string().as_bytes()).unwrap()
}

fn evidence(subject: Subject, groups: &[Value], pods: &[Value]) -> Evidence {
    Evidence {
        subject,
        groups: groups.iter().cloned().map(view).collect(),
        pods: pods.iter().cloned().map(view).collect(),
        nodes: Vec::new(),
        events: Vec::new(),
    }
}

fn pod(spec: Value, status: Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "d", "uid": "p"}, "spec": spec, "status": status})
}

#[test]
fn the_summary_has_the_reason_of_a_wait() {
    let member = json!({"schedulingGroup": {"podGroupName": "g"}});
    let bound_member = json!({"schedulingGroup": {"podGroupName": "g"}, "nodeName": "n"});
    let gang = json!({"metadata": {"name": "g", "uid": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}});
    let mut scheduled = gang.clone();
    scheduled["status"] = json!({"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]});
    let refused =
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "R", "message": "full"}]});
    let job = |spec: Value| Subject::Job(Box::new(view(json!({"metadata": {"name": "j", "uid": "j"}, "spec": spec}))));
    let of_pod = |spec: &Value, status: &Value| Subject::Pod(Box::new(view(pod(spec.clone(), status.clone()))));
    let (none, no) = (json!({}), &[][..]);
    for (case, evidence, want) in [
        (
            "gates",
            evidence(of_pod(&json!({"schedulingGates": [{"name": "x"}]}), &none), no, no),
            "waits: held by scheduling gates: x",
        ),
        ("no group", evidence(of_pod(&member, &none), no, no), "waits: the PodGroup g that it names does not exist"),
        ("refused", evidence(of_pod(&none, &refused), no, no), "waits: R: full"),
        ("no condition", evidence(of_pod(&none, &none), no, no), NO_SCHEDULER_RESPONSE),
        ("bound", evidence(of_pod(&json!({"nodeName": "n"}), &none), no, no), "Pending on node n, node n"),
        (
            "too few pods",
            evidence(
                Subject::Group(view(gang.clone())),
                std::slice::from_ref(&gang),
                &[pod(member.clone(), none.clone())],
            ),
            "waits for pods: 1 of 2 needed pods exist",
        ),
        (
            "half placed",
            evidence(
                Subject::Group(view(gang.clone())),
                std::slice::from_ref(&gang),
                &[pod(bound_member.clone(), none.clone()), pod(member.clone(), none.clone())],
            ),
            "is being placed: 1 of 2 needed pods have a node",
        ),
        (
            "one pod pending",
            evidence(
                Subject::Group(view(scheduled.clone())),
                std::slice::from_ref(&scheduled),
                &[bound_member.clone(), bound_member.clone(), member.clone()].map(|spec| pod(spec, none.clone())),
            ),
            "2 of 3 pods placed on 1 node in node n; 1 waits",
        ),
        (
            "no pod has a node any more",
            evidence(
                Subject::Group(view(scheduled.clone())),
                std::slice::from_ref(&scheduled),
                &[member.clone(), member.clone()].map(|spec| pod(spec, none.clone())),
            ),
            "waits: none of 2 pods has a node",
        ),
        (
            "a Workload",
            evidence(Subject::Workload(view(none.clone())), no, no),
            "waits: no PodGroup has been created from it yet",
        ),
        (
            "suspended",
            evidence(job(json!({"suspend": true})), no, no),
            "suspended: no pod runs until spec.suspend is false",
        ),
        ("no pods", evidence(job(none.clone()), no, no), "waits: its controller has created no pods yet"),
        (
            "no PodGroup",
            evidence(job(json!({"template": {"spec": {"schedulingGroup": {"podGroupName": "g"}}}})), no, no),
            "waits: the PodGroup g that its pods name does not exist",
        ),
    ] {
        assert_eq!(Explanation::from_evidence(&evidence, None).summary, want, "{case}");
    }
}

// Three pods of the first run counted as placed: the summary had "3 of 6 pods placed" with "0 of minCount 3 pods bound".
#[test]
fn ended_pods_do_not_count_as_placed_or_waiting() {
    let gang = json!({
        "metadata": {"name": "g", "uid": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        "status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]},
    });
    let member = |node: Value, phase: &str| {
        pod(json!({"schedulingGroup": {"podGroupName": "g"}, "nodeName": node}), json!({"phase": phase}))
    };
    let ended = ["Failed", "Succeeded", "Succeeded"].map(|phase| member("n".into(), phase));
    let (waits, runs) = (member("".into(), "Pending"), member("m".into(), "Running"));
    for (case, pods, summary, counts) in [
        (
            "all of the second run wait",
            vec![waits.clone(); 3],
            "waits: none of 3 pods has a node; ended: 2 succeeded, 1 failed",
            "3 pods: 0 placed, 3 waiting; ended: 2 succeeded, 1 failed",
        ),
        (
            "one of them waits",
            vec![runs.clone(), runs.clone(), waits],
            "2 of 3 pods placed on 1 node in node m; 1 waits; ended: 2 succeeded, 1 failed",
            "3 pods: 2 placed, 1 waiting, 2 running; ended: 2 succeeded, 1 failed",
        ),
        (
            "all of them run",
            vec![runs; 3],
            "placed on 1 node in node m; ended: 2 succeeded, 1 failed",
            "3 pods: 3 placed, 3 running; ended: 2 succeeded, 1 failed",
        ),
        (
            "there is no second run",
            Vec::new(),
            "ended: 2 succeeded, 1 failed",
            "3 pods ended: 2 succeeded, 1 failed\n  PodGroupInitiallyScheduled=True\n  were in node n: 3 pods on 1 node",
        ),
    ] {
        let pods = [ended.to_vec(), pods].concat();
        let evidence = evidence(Subject::Group(view(gang.clone())), std::slice::from_ref(&gang), &pods);
        let explanation = Explanation::from_evidence(&evidence, None);
        let text = explanation.text("2026-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(explanation.summary, summary, "{case}");
        assert!(text.contains(&format!("\n  {counts}\n")), "{case}: {text}");
    }
}

fn refusal() -> RefusalReport {
    RefusalReport {
        code: RefusalCode::Incomplete,
        message: String::new(),
        pod_message: String::new(),
        required: 3,
        pods: 1,
        placed: 0,
        fits: 0,
        nodes: 0,
        proven: true,
        can_fit_later: false,
        reasons: BTreeMap::new(),
        nearest: None,
        domains: Vec::new(),
        remedies: None,
        remedies_truncated: false,
    }
}

// The summary had "no scheduler has reported anything" although the response of the scheduler had the refusal.
#[test]
fn without_a_condition_the_summary_is_from_the_scheduler() {
    let group = json!({"metadata": {"name": "g", "uid": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}});
    let member = pod(json!({"schedulingGroup": {"podGroupName": "g"}}), json!({}));
    let report = |kind: UnitKind, name: &str, state: UnitState| UnitReport {
        unit: UnitReference { kind, namespace: "d".to_owned(), name: name.to_owned() },
        state,
        exclusion_reason: None,
        exclusion_message: None,
        queue: None,
        refusal: None,
        placement: None,
        text: Vec::new(),
    };
    let refused = |kind: UnitKind, name: &str| UnitReport {
        refusal: Some(RefusalReport { message: "1 of 3 exist".to_owned(), ..refusal() }),
        ..report(kind, name, UnitState::Waiting)
    };
    let of_pod = |pod: Value| Subject::Pod(Box::new(view(pod)));
    let groups = std::slice::from_ref(&group);
    let about_group = || evidence(Subject::Group(view(group.clone())), groups, std::slice::from_ref(&member));
    let about_member = || evidence(of_pod(member.clone()), groups, std::slice::from_ref(&member));
    let about_pod = || evidence(of_pod(pod(json!({}), json!({}))), &[], &[]);
    let (of_group, of_pod) = (refused(UnitKind::PodGroup, "g"), refused(UnitKind::Pod, "p"));
    let excluded = UnitReport {
        exclusion_reason: Some(ExclusionCode::Gated),
        exclusion_message: Some("it is gated".to_owned()),
        ..report(UnitKind::Pod, "p", UnitState::Excluded)
    };
    let fits = report(UnitKind::PodGroup, "g", UnitState::FitsNow);
    let idle = report(UnitKind::PodGroup, "g", UnitState::Idle);
    for (case, evidence, report, want) in [
        ("a group", about_group(), of_group.clone(), "waits: 1 of 3 exist"),
        ("a pod of it", about_member(), of_group, "waits: 1 of 3 exist"),
        ("a pod that is excluded", about_member(), excluded, "is not placed: it is gated"),
        ("a pod alone", about_pod(), of_pod, "waits: 1 of 3 exist"),
        ("a group that fits", about_group(), fits, "is about to be placed: it fits now"),
        ("no refusal", about_group(), idle, NO_SCHEDULER_RESPONSE),
    ] {
        let response = SchedulerResponse { source: "here".to_owned(), is_local: false, units: vec![report] };
        assert_eq!(Explanation::from_evidence(&evidence, Some(response)).summary, want, "{case}");
    }
    let fits = report(UnitKind::PodGroup, "g", UnitState::FitsNow);
    let response = SchedulerResponse { source: "here".to_owned(), is_local: true, units: vec![fits] };
    let summary = Explanation::from_evidence(&about_group(), Some(response)).summary;
    assert_eq!(summary, "fits now, but no scheduler responds");
}

#[test]
fn events_of_one_reason_about_many_pods_are_one_line() {
    let event = |uid: &str, second: u32, message: &str| {
        ObservedEvent::from_object(&json!({
            "involvedObject": {"kind": "Pod", "name": uid, "uid": uid}, "type": "Warning", "reason": "Failed",
            "message": message, "count": 2, "lastTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
        }))
    };
    let owned = |uid: &str| json!({"metadata": {"name": uid, "uid": uid, "ownerReferences": [{"kind": "Job", "uid": "j", "controller": true}]}});
    let mut evidence = evidence(
        Subject::Job(Box::new(view(json!({"metadata": {"name": "j", "uid": "j"}})))),
        &[],
        &[owned("a"), owned("b")],
    );
    evidence.events = vec![event("a", 1, "old"), event("b", 9, "new"), event("unrelated", 3, "ignored")];
    let text = Explanation::from_evidence(&evidence, None).text("2026-01-01T00:00:19Z".parse().unwrap());
    assert!(text.ends_with("events\n  10s    Warning Failed 2 pods: new (4 times)\n"), "{text}");
}
