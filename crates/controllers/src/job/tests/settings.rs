//! Settings: which Jobs get objects, which Workload is joined, what suspension deletes.

use api::gates::{AutoGang, Gate};
use api::views::{NamespaceView, PodGroupView, WorkloadRefView, WorkloadView};

use super::groups::{child, gang, step, stored_group, stored_workload, user_object, user_workload, with_objects};
use super::*;
use crate::job::scheduling::{ManagementMode, TEMPLATE_ANNOTATION, management_mode};
use crate::job::settings::{GROUPS_LABEL, GroupsLabel};
use crate::job::{ChildOwners, OnSuspend, PlainJobs};

fn plain() -> JobBuilder {
    job(json!({ "completions": 4, "parallelism": 4 }))
}

fn labelled(job: JobBuilder, value: &str) -> JobBuilder {
    job.with(|job| {
        job.metadata.labels.insert(GROUPS_LABEL.to_owned(), value.to_owned());
    })
}

// Shows: S000-71
#[test]
fn objects_follow_the_job_then_its_namespace_then_the_settings() {
    let objects = "create workload";
    let none = Config { plain_jobs: PlainJobs::None, ..Config::default() };
    let basic = Config::default();
    let indexed = || job(json!({ "completions": 4, "parallelism": 4, "completionMode": "Indexed" }));
    let (explicit, auto) = (Gates::default(), Gates::default().with_auto_gang(AutoGang::Indexed));
    let (enabled, disabled) = (Some(GroupsLabel::Enabled), Some(GroupsLabel::Disabled));
    for (case, job, namespace, gates, config, want) in [
        ("by default every Job", plain(), None, &explicit, &basic, objects),
        ("not if plain Jobs get none", plain(), None, &explicit, &none, "create 4"),
        ("but a gang does", gang(None), None, &explicit, &none, objects),
        ("and a gang by setting", indexed(), None, &auto, &none, objects),
        ("other Jobs get none by that setting", plain(), None, &auto, &basic, "create 4"),
        ("a namespace opts in", plain(), enabled, &explicit, &none, objects),
        ("a namespace opts out", plain(), disabled, &explicit, &basic, "create 4"),
        ("also for gangs by setting", indexed(), disabled, &auto, &basic, "create ["),
        ("but not for a Job with spec.scheduling", gang(None), disabled, &explicit, &basic, objects),
        ("a Job opts in", labelled(plain(), "enabled"), disabled, &explicit, &none, objects),
        ("a Job opts out", labelled(plain(), "disabled"), enabled, &explicit, &basic, "create 4"),
        ("of everything", labelled(gang(None), "disabled"), None, &explicit, &basic, "create 4"),
        ("another value is ignored", labelled(plain(), "maybe"), None, &explicit, &basic, objects),
    ] {
        let seen = JobSnapshot { namespace_label: namespace, ..observed(job, vec![], 1) };
        let step = step_text(&next_step(&seen, gates, config).unwrap());
        assert!(step.starts_with(want), "{case}: {step}");
    }
}

#[test]
fn a_namespace_has_the_same_label() {
    let label = |value: &str| {
        let document = json!({ "metadata": { "name": "ns", "labels": { "phalanx.dev/groups": value } } });
        GroupsLabel::of(&user_object::<NamespaceView>(document).metadata)
    };
    let labels = (label("enabled"), label("disabled"), label("on"));
    assert_eq!(labels, (Some(GroupsLabel::Enabled), Some(GroupsLabel::Disabled), None));
}

// Shows: S004-22
#[test]
fn the_kinds_of_parents_are_a_setting() {
    let owned_by = |kind: &str| {
        let owner = OwnerRef {
            api_version: if kind == "CronJob" { "batch/v1" } else { "example.com/v1" }.to_owned(),
            kind: kind.to_owned(),
            name: "parent".to_owned(),
            controller: true,
            ..OwnerRef::default()
        };
        gang(None).with(|job| job.metadata.owner_references = vec![owner])
    };
    let kinds = |kinds: &[&str]| ChildOwners(kinds.iter().map(|kind| (*kind).to_owned()).collect());
    for (owners, kind, is_child) in [
        (kinds(&["*"]), "Training", true),
        (kinds(&["*"]), "CronJob", false),
        (kinds(&["*", "CronJob"]), "CronJob", false),
        (kinds(&["JobSet"]), "Training", false),
        (kinds(&["JobSet"]), "JobSet", true),
        (kinds(&[]), "JobSet", false),
    ] {
        let mode = management_mode(&owned_by(kind).0, &Gates::default(), &owners);
        let want = if is_child { ManagementMode::ManageNone } else { ManagementMode::ManageBoth };
        assert_eq!(mode, want, "{kind} under {owners:?}");
    }
}

// Shows: S000-34
// Shows: S000-42
#[test]
fn a_job_with_pods_uses_existing_objects_and_creates_none() {
    let basic = json!([{ "name": "t", "schedulingPolicy": { "basic": {} } }]);
    let mut seen = observed(gang(None), vec![pod("a").running()], 1);
    seen.workloads = vec![user_workload("mine", basic)];
    assert_eq!(step_text(&step(&seen)), "create 3", "the Workload has no group, and the Job has pods");
    seen.pod_groups = vec![user_object(json!({
        "metadata": { "name": "my-group", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "workloadRef": { "workloadName": "mine", "templateName": "t" }, "schedulingPolicy": { "basic": {} } },
    }))];
    assert_eq!(step_text(&step(&seen)), "create 3 in my-group", "a user's Basic group has precedence over the gang");
}

// Shows: S000-47
#[test]
fn objects_are_found_under_any_name() {
    let mut seen = with_objects(gang(None));
    let (mut workload, mut group) = ((*seen.workloads[0]).clone(), (*seen.pod_groups[0]).clone());
    (workload.metadata.name, group.metadata.name) = ("x".to_owned(), "y".to_owned());
    (seen.workloads, seen.pod_groups) = (vec![Arc::new(workload)], vec![Arc::new(group)]);
    assert_eq!(step_text(&step(&seen)), "create 4 in y");
}

// Shows: S000-39
#[test]
fn several_groups_are_reported_and_pods_are_plain() {
    let group = |name: &str| {
        let origin = json!({ "workloadName": "mine", "templateName": "t" });
        let spec = json!({ "workloadRef": origin, "schedulingPolicy": { "basic": {} } });
        user_object::<PodGroupView>(
            json!({ "metadata": { "name": name, "namespace": "ns", "uid": name }, "spec": spec }),
        )
    };
    let mut seen = observed(gang(None), vec![], 1);
    seen.workloads = vec![user_workload("mine", json!([{ "name": "t", "schedulingPolicy": { "basic": {} } }]))];
    seen.pod_groups = vec![group("a"), group("b")];
    let write = step(&seen);
    assert!(step_text(&write).ends_with("SchedulingFallback !AmbiguousPodGroup"), "{}", step_text(&write));
    apply_status(&mut seen, write);
    assert_eq!(step_text(&step(&seen)), "create 4");
}

// The user's Workload existed before the Job, but the cache showed it only after ours was created.
// Shows: S000-37
#[test]
fn our_objects_are_deleted_when_the_users_objects_are_seen_late() {
    let users = || user_workload("mine", json!([{ "name": "t", "schedulingPolicy": { "gang": { "minCount": 2 } } }]));
    let created = with_objects(gang(None));
    let (workload, group) = (created.workloads[0].metadata.name.clone(), created.pod_groups[0].metadata.name.clone());

    let mut seen = created.clone();
    seen.workloads.push(users());
    assert_eq!(step_text(&step(&seen)), format!("delete {group}"), "its group first");
    seen.pod_groups.clear();
    assert_eq!(step_text(&step(&seen)), format!("delete {workload}"));
    seen.workloads.remove(0);
    let NextStep::CreatePodGroup(group) = step(&seen) else { panic!("a group of the user's Workload") };
    assert_eq!(group.spec.scheduling_policy.gang.as_ref().unwrap().min_count, 2);

    // The same one step later: the cache shows the user's group after ours was created.
    let ours = group.metadata.name.clone().unwrap();
    let users_group = user_object(json!({
        "metadata": { "name": "my-group", "namespace": "ns", "uid": "u" },
        "spec": { "workloadRef": { "workloadName": "mine", "templateName": "t" }, "schedulingPolicy": { "basic": {} } },
    }));
    seen.pod_groups = vec![stored_group(&group), users_group];
    assert_eq!(step_text(&step(&seen)), format!("delete {ours}"));
    seen.pod_groups.remove(0);
    assert_eq!(step_text(&step(&seen)), "create 4 in my-group");

    // With pods nothing is deleted, and two Workloads are ambiguous.
    let mut seen = created;
    seen.workloads.push(users());
    seen.pods = vec![pod("a").running().build()];
    assert!(step_text(&step(&seen)).ends_with("!AmbiguousWorkload"), "{}", step_text(&step(&seen)));
}

// Shows: S000-76
#[test]
fn a_suspended_job_loses_its_objects_if_the_setting_is_delete() {
    let config = Config { on_suspend: OnSuspend::Delete, ..Config::default() };
    let step = |seen: &JobSnapshot| next_step(seen, &Gates::default(), &config).unwrap();
    let suspended = |seen: &JobSnapshot, on: bool| {
        let mut job = (*seen.job).clone();
        job.spec.suspend = Some(on);
        JobSnapshot { job: Arc::new(job), ..seen.clone() }
    };
    let mut seen = with_objects(gang(None).with(|job| job.status.succeeded = 1));
    let (workload, group) = (seen.workloads[0].metadata.name.clone(), seen.pod_groups[0].metadata.name.clone());
    seen.pods = vec![pod("a").succeeded_at(1).without_finalizer().build(), pod("b").running().build()];
    seen = suspended(&seen, true);
    assert_eq!(step_text(&step(&seen)), "delete uncounted b");
    seen.pods[1] = pod("b").running().without_finalizer().deleting().build();
    let write = step(&seen);
    assert!(
        step_text(&write).starts_with("status "),
        "nothing is deleted while a pod is ending: {}",
        step_text(&write)
    );
    apply_status(&mut seen, write);
    assert_eq!(step_text(&step(&seen)), "wait");
    seen.pods.pop();
    assert_eq!(step_text(&step(&seen)), format!("delete {group}"));
    seen.pod_groups.clear();
    assert_eq!(step_text(&step(&seen)), format!("delete {workload}"));
    seen.workloads.clear();
    let write = step(&seen);
    apply_status(&mut seen, write);
    assert_eq!(step_text(&step(&seen)), "wait", "nothing is created while it is suspended");

    let mut seen = suspended(&seen, false);
    let NextStep::CreateWorkload(created) = step(&seen) else { panic!("objects again, although a pod has ended") };
    seen.workloads = vec![stored_workload(&created)];
    let NextStep::CreatePodGroup(created) = step(&seen) else { panic!("a group again") };
    seen.pod_groups = vec![stored_group(&created)];
    assert_eq!(step_text(&step(&seen)), format!("create 3 in {group}"));
}

// Shows: S000-32
#[test]
fn suspension_deletes_no_objects_of_users() {
    let config = Config { on_suspend: OnSuspend::Delete, ..Config::default() };
    let mut seen = observed(gang(None).with(|job| job.spec.suspend = Some(true)), vec![], 1);
    seen.workloads = vec![user_workload("mine", json!([{ "name": "t", "schedulingPolicy": { "basic": {} } }]))];
    let step = next_step(&seen, &Gates::default(), &config).unwrap();
    assert!(step_text(&step).starts_with("status "), "{}", step_text(&step));
}

fn naming(job: JobBuilder, workload: &str) -> JobBuilder {
    job.with(|job| job.spec.workload_ref = Some(WorkloadRefView { name: workload.to_owned(), ..Default::default() }))
}

fn with_gate() -> Gates {
    Gates::default().with(Gate::JobWorkloadRef, true)
}

// Shows: S001-05
// Shows: S001-15
#[test]
fn jobs_that_name_one_workload_join_one_group() {
    let named = user_workload("shared", json!([{ "name": "t", "schedulingPolicy": { "gang": { "minCount": 8 } } }]));
    let mut seen = observed(naming(plain(), "shared"), vec![], 1);
    seen.workloads = vec![named.clone()];
    let step = |seen: &JobSnapshot| next_step(seen, &with_gate(), &Config::default()).unwrap();
    let NextStep::CreatePodGroup(group) = step(&seen) else { panic!("the group of the Workload") };
    let owners = group.metadata.owner_references.clone().unwrap();
    assert_eq!(owners.iter().map(|owner| owner.kind.as_str()).collect::<Vec<_>>(), ["Workload"], "no Job's own");
    let other = observed(naming(plain(), "shared").with(|job| job.metadata.uid = "other".to_owned()), vec![], 1);
    let NextStep::CreatePodGroup(same) = step(&JobSnapshot { workloads: vec![named], ..other }) else {
        panic!("a group")
    };
    assert_eq!(same.metadata.name, group.metadata.name, "the first Job creates the one group");

    seen.pod_groups = vec![stored_group(&group)];
    let joined = format!("create 4 in {}", group.metadata.name.as_ref().unwrap());
    assert_eq!(step_text(&step(&seen)), joined);
    let users = user_object(json!({
        "metadata": { "name": "my-group", "namespace": "ns", "uid": "u" },
        "spec": { "workloadRef": { "workloadName": "shared", "templateName": "t" }, "schedulingPolicy": { "basic": {} } },
    }));
    seen.pod_groups.push(users);
    assert_eq!(step_text(&step(&seen)), "create 4 in my-group", "a user's group has precedence over one of ours");
}

// Shows: S001-11
#[test]
fn a_job_waits_for_a_workload_that_cannot_be_resolved_and_reports_it() {
    let two = json!([{ "name": "t", "schedulingPolicy": { "basic": {} } }, { "name": "u", "schedulingPolicy": { "basic": {} } }]);
    let group = |name: &str| {
        let origin = json!({ "workloadName": "shared", "templateName": "t" });
        user_object::<PodGroupView>(
            json!({ "metadata": { "name": name, "uid": name }, "spec": { "workloadRef": origin } }),
        )
    };
    let one: Vec<Arc<WorkloadView>> = vec![user_workload("shared", two)];
    for (workloads, groups, reason) in [
        (vec![], vec![], "WorkloadNotFound"),
        (one.clone(), vec![], "UnsupportedWorkload"),
        (one.clone(), vec![group("a"), group("b")], "AmbiguousPodGroup"),
    ] {
        let mut seen = observed(naming(gang(None), "shared"), vec![], 1);
        (seen.workloads, seen.pod_groups) = (workloads, groups);
        let write = next_step(&seen, &with_gate(), &Config::default()).unwrap();
        assert!(step_text(&write).ends_with(&format!("SchedulingBlocked !{reason}")), "{}", step_text(&write));
        apply_status(&mut seen, write);
        let waiting = next_step(&seen, &with_gate(), &Config::default()).unwrap();
        assert_eq!(step_text(&waiting), "wait", "{reason}: no plain pods meanwhile");
        (seen.workloads, seen.pod_groups) = (one.clone(), vec![group("a")]);
        let resolved = next_step(&seen, &with_gate(), &Config::default()).unwrap();
        assert_eq!(step_text(&resolved), "create 4 in a", "{reason}: it is resolved");
    }
}

// Another Workload of the same name was joined without a report.
// Shows: S001-10
#[test]
fn a_job_with_the_uid_of_another_workload_waits_and_reports_it() {
    let templates = json!([{ "name": "t", "schedulingPolicy": { "basic": {} } }]);
    let with_uid = |uid: &str| {
        let named = WorkloadRefView { name: "shared".to_owned(), uid: uid.to_owned() };
        let job = plain().with(|job| job.spec.workload_ref = Some(named));
        let seen =
            JobSnapshot { workloads: vec![user_workload("shared", templates.clone())], ..observed(job, vec![], 1) };
        next_step(&seen, &with_gate(), &Config::default()).unwrap()
    };
    assert!(step_text(&with_uid("shared")).starts_with("create group"), "{}", step_text(&with_uid("shared")));
    let NextStep::WriteStatus(status, _) = with_uid("other") else { panic!("a status") };
    let condition = &status.conditions[0];
    assert_eq!((condition.kind.as_str(), condition.reason.as_str()), ("SchedulingBlocked", "WorkloadNotFound"));
    assert_eq!(
        condition.message,
        "spec.workloadRef: there is no Workload shared with uid other; the one of that name has uid shared: recreate the \
         Job with that uid, or without one"
    );
}

// Shows: S001-17
// Shows: S001-18
#[test]
fn without_the_gate_or_the_field_nothing_changes() {
    let unchanged = step_text(&step(&observed(gang(None), vec![], 1)));
    assert_eq!(step_text(&step(&observed(naming(gang(None), "shared"), vec![], 1))), unchanged, "the gate is off");
    let seen = observed(gang(None), vec![], 1);
    assert_eq!(
        step_text(&next_step(&seen, &with_gate(), &Config::default()).unwrap()),
        unchanged,
        "the field is not set"
    );
    let child = child("job-uid", &[(TEMPLATE_ANNOTATION, "workers")]);
    let waits = step_text(&step(&observed(child, vec![], 1)));
    assert!(waits.ends_with("!ParentWorkloadNotFound"), "a child waits for its parent's: {waits}");
}

#[test]
fn a_job_reports_what_its_group_waits_for_until_it_is_placed() {
    let mut seen = with_objects(gang(None));
    seen.pods = ["a", "b", "c", "d"].map(|name| pod(name).build()).to_vec();
    let write = step(&seen);
    apply_status(&mut seen, write);
    assert_eq!(step_text(&step(&seen)), "wait");
    let scheduled = |seen: &mut JobSnapshot, status: &str, reason: &str, message: &str| {
        let mut group = (*seen.pod_groups[0]).clone();
        group.status.conditions = vec![Condition {
            kind: "PodGroupInitiallyScheduled".to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..Condition::default()
        }];
        seen.pod_groups = vec![Arc::new(group)];
    };
    let on_job = |seen: &JobSnapshot| {
        let found = seen.job.status.conditions.iter().find(|condition| condition.kind == "PodGroupScheduled");
        found.map(|condition| format!("{} {} {}", condition.status, condition.reason, condition.message))
    };
    let name = seen.pod_groups[0].metadata.name.clone();
    let placed_at_once = {
        let mut seen = seen.clone();
        scheduled(&mut seen, "True", "Scheduled", "");
        step_text(&step(&seen))
    };
    assert_eq!(placed_at_once, "wait", "a group that is placed at once needs no write");

    scheduled(&mut seen, "False", "Unschedulable", "3 of 4 pods fit");
    let write = step(&seen);
    apply_status(&mut seen, write);
    assert_eq!(on_job(&seen), Some(format!("False Unschedulable PodGroup {name}: 3 of 4 pods fit")));
    let since = |seen: &JobSnapshot| {
        let found = seen.job.status.conditions.iter().find(|condition| condition.kind == "PodGroupScheduled");
        found.and_then(|condition| condition.last_transition_time)
    };
    assert_eq!(since(&seen), Some(at(1)));
    seen.now = at(5);
    scheduled(&mut seen, "False", "Unschedulable", "2 of 4 pods fit");
    let write = step(&seen);
    apply_status(&mut seen, write);
    assert_eq!(on_job(&seen), Some(format!("False Unschedulable PodGroup {name}: 2 of 4 pods fit")));
    assert_eq!(since(&seen), Some(at(1)), "another message is no transition");
    let mut stopped = seen.clone();
    stopped.job = Arc::new(
        gang(None)
            .with(|job| {
                job.status = seen.job.status.clone();
                job.spec.suspend = Some(true);
            })
            .0,
    );
    stopped.pods.clear();
    let write = step(&stopped);
    apply_status(&mut stopped, write);
    assert_eq!(on_job(&stopped), None, "a suspended Job does not wait");
    let mut late = seen.clone();
    let mut job = (*seen.job).clone();
    job.spec.active_deadline_seconds = Some(0);
    late.job = Arc::new(job);
    let write = step(&late);
    assert!(step_text(&write).ends_with("FailureTarget"), "{}", step_text(&write));
    apply_status(&mut late, write);
    assert_eq!(on_job(&late), on_job(&seen), "one that waited until its deadline still reports it");

    scheduled(&mut seen, "True", "Scheduled", "");
    let write = step(&seen);
    apply_status(&mut seen, write);
    assert_eq!(on_job(&seen), Some(format!("True Scheduled PodGroup {name} is placed")));
    assert_eq!(since(&seen), Some(at(5)));
}
