//! What may be chosen: who gets objects, which Workload is joined, what suspension leaves.

use api::gates::{AutoGang, Gate};
use api::views::{NamespaceView, PodGroupView, WorkloadRefView, WorkloadView};

use super::groups::{child, gang, step, stored_group, stored_workload, user_made, user_workload, with_objects};
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
        ("not where plain Jobs get none", plain(), None, &explicit, &none, "create 4"),
        ("but a gang does", gang(None), None, &explicit, &none, objects),
        ("and a gang by setting", indexed(), None, &auto, &none, objects),
        ("by that setting alone no other", plain(), None, &auto, &basic, "create 4"),
        ("a namespace opts in", plain(), enabled, &explicit, &none, objects),
        ("a namespace opts out", plain(), disabled, &explicit, &basic, "create 4"),
        ("also of gangs by setting", indexed(), disabled, &auto, &basic, "create ["),
        ("but not for a Job that asks", gang(None), disabled, &explicit, &basic, objects),
        ("a Job opts in", labelled(plain(), "enabled"), disabled, &explicit, &none, objects),
        ("a Job opts out", labelled(plain(), "disabled"), enabled, &explicit, &basic, "create 4"),
        ("of everything", labelled(gang(None), "disabled"), None, &explicit, &basic, "create 4"),
        ("another word says nothing", labelled(plain(), "maybe"), None, &explicit, &basic, objects),
    ] {
        let seen = JobSnapshot { namespace_label: namespace, ..observed(job, vec![], 1) };
        let step = step_text(&next_step(&seen, gates, config).unwrap());
        assert!(step.starts_with(want), "{case}: {step}");
    }
}

#[test]
fn a_namespace_says_it_with_the_same_label() {
    let says = |value: &str| {
        let document = json!({ "metadata": { "name": "ns", "labels": { "phalanx.dev/groups": value } } });
        GroupsLabel::of(&user_made::<NamespaceView>(document).metadata)
    };
    let said = (says("enabled"), says("disabled"), says("on"));
    assert_eq!(said, (Some(GroupsLabel::Enabled), Some(GroupsLabel::Disabled), None));
}

// Shows: S004-22
#[test]
fn whose_jobs_are_children_is_a_setting() {
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
fn a_job_with_pods_uses_what_it_finds_and_creates_nothing() {
    let basic = json!([{ "name": "t", "schedulingPolicy": { "basic": {} } }]);
    let mut seen = observed(gang(None), vec![pod("a").running()], 1);
    seen.workloads = vec![user_workload("mine", basic)];
    assert_eq!(step_text(&step(&seen)), "create 3", "the Workload has no group, and pods are there");
    seen.pod_groups = vec![user_made(json!({
        "metadata": { "name": "my-group", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "workloadRef": { "workloadName": "mine", "templateName": "t" }, "schedulingPolicy": { "basic": {} } },
    }))];
    assert_eq!(step_text(&step(&seen)), "create 3 in my-group", "a Basic group of the user's wins over the gang");
}

// Shows: S000-47
#[test]
fn objects_are_found_whatever_they_are_called() {
    let mut seen = with_objects(gang(None));
    let (mut workload, mut group) = ((*seen.workloads[0]).clone(), (*seen.pod_groups[0]).clone());
    (workload.metadata.name, group.metadata.name) = ("x".to_owned(), "y".to_owned());
    (seen.workloads, seen.pod_groups) = (vec![Arc::new(workload)], vec![Arc::new(group)]);
    assert_eq!(step_text(&step(&seen)), "create 4 in y");
}

// Shows: S000-39
#[test]
fn several_groups_are_said_and_pods_are_plain() {
    let group = |name: &str| {
        let origin = json!({ "workloadName": "mine", "templateName": "t" });
        let spec = json!({ "workloadRef": origin, "schedulingPolicy": { "basic": {} } });
        user_made::<PodGroupView>(json!({ "metadata": { "name": name, "namespace": "ns", "uid": name }, "spec": spec }))
    };
    let mut seen = observed(gang(None), vec![], 1);
    seen.workloads = vec![user_workload("mine", json!([{ "name": "t", "schedulingPolicy": { "basic": {} } }]))];
    seen.pod_groups = vec![group("a"), group("b")];
    let said = step(&seen);
    assert!(step_text(&said).ends_with("SchedulingFallback !AmbiguousPodGroup"), "{}", step_text(&said));
    apply_status(&mut seen, said);
    assert_eq!(step_text(&step(&seen)), "create 4");
}

// The user's Workload was there before the Job, but the cache showed it only after ours was made.
// Shows: S000-37
#[test]
fn what_was_made_before_the_users_objects_were_seen_makes_way_for_them() {
    let users = || user_workload("mine", json!([{ "name": "t", "schedulingPolicy": { "gang": { "minCount": 2 } } }]));
    let made = with_objects(gang(None));
    let (workload, group) = (made.workloads[0].metadata.name.clone(), made.pod_groups[0].metadata.name.clone());

    let mut seen = made.clone();
    seen.workloads.push(users());
    assert_eq!(step_text(&step(&seen)), format!("remove {group}"), "first what hangs on it");
    seen.pod_groups.clear();
    assert_eq!(step_text(&step(&seen)), format!("remove {workload}"));
    seen.workloads.remove(0);
    let NextStep::CreatePodGroup(group) = step(&seen) else { panic!("a group of the user's Workload") };
    assert_eq!(group.spec.scheduling_policy.gang.as_ref().unwrap().min_count, 2);

    // The same one step later: the user's group shows when ours is made already.
    let ours = group.metadata.name.clone().unwrap();
    let users_group = user_made(json!({
        "metadata": { "name": "my-group", "namespace": "ns", "uid": "u" },
        "spec": { "workloadRef": { "workloadName": "mine", "templateName": "t" }, "schedulingPolicy": { "basic": {} } },
    }));
    seen.pod_groups = vec![stored_group(&group), users_group];
    assert_eq!(step_text(&step(&seen)), format!("remove {ours}"));
    seen.pod_groups.remove(0);
    assert_eq!(step_text(&step(&seen)), "create 4 in my-group");

    // Once there are pods nothing is taken away, and two are one too many.
    let mut seen = made;
    seen.workloads.push(users());
    seen.pods = vec![pod("a").running().build()];
    assert!(step_text(&step(&seen)).ends_with("!AmbiguousWorkload"), "{}", step_text(&step(&seen)));
}

// Shows: S000-76
#[test]
fn a_suspended_job_loses_its_objects_where_the_setting_says_so() {
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
    assert_eq!(step_text(&step(&seen)), "drop b");
    seen.pods[1] = pod("b").running().without_finalizer().deleting().build();
    let said = step(&seen);
    assert!(step_text(&said).starts_with("status "), "while a pod still ends nothing goes: {}", step_text(&said));
    apply_status(&mut seen, said);
    assert_eq!(step_text(&step(&seen)), "rest");
    seen.pods.pop();
    assert_eq!(step_text(&step(&seen)), format!("remove {group}"));
    seen.pod_groups.clear();
    assert_eq!(step_text(&step(&seen)), format!("remove {workload}"));
    seen.workloads.clear();
    let said = step(&seen);
    apply_status(&mut seen, said);
    assert_eq!(step_text(&step(&seen)), "rest", "and nothing is made while it is suspended");

    let mut seen = suspended(&seen, false);
    let NextStep::CreateWorkload(made) = step(&seen) else { panic!("objects again, although a pod has ended") };
    seen.workloads = vec![stored_workload(&made)];
    let NextStep::CreatePodGroup(made) = step(&seen) else { panic!("a group again") };
    seen.pod_groups = vec![stored_group(&made)];
    assert_eq!(step_text(&step(&seen)), format!("create 3 in {group}"));
}

// Shows: S000-32
#[test]
fn suspension_takes_away_nothing_that_others_made() {
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
    assert_eq!(same.metadata.name, group.metadata.name, "whichever Job comes first makes the one group");

    seen.pod_groups = vec![stored_group(&group)];
    let joined = format!("create 4 in {}", group.metadata.name.as_ref().unwrap());
    assert_eq!(step_text(&step(&seen)), joined);
    let users = user_made(json!({
        "metadata": { "name": "my-group", "namespace": "ns", "uid": "u" },
        "spec": { "workloadRef": { "workloadName": "shared", "templateName": "t" }, "schedulingPolicy": { "basic": {} } },
    }));
    seen.pod_groups.push(users);
    assert_eq!(step_text(&step(&seen)), "create 4 in my-group", "a user's group counts more than one made here");
}

// Shows: S001-11
#[test]
fn a_workload_that_cannot_be_resolved_is_waited_for_and_said() {
    let two = json!([{ "name": "t", "schedulingPolicy": { "basic": {} } }, { "name": "u", "schedulingPolicy": { "basic": {} } }]);
    let group = |name: &str| {
        let origin = json!({ "workloadName": "shared", "templateName": "t" });
        user_made::<PodGroupView>(
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
        let said = next_step(&seen, &with_gate(), &Config::default()).unwrap();
        assert!(step_text(&said).ends_with(&format!("SchedulingBlocked !{reason}")), "{}", step_text(&said));
        apply_status(&mut seen, said);
        let rest = next_step(&seen, &with_gate(), &Config::default()).unwrap();
        assert_eq!(step_text(&rest), "rest", "{reason}: no plain pods meanwhile");
        (seen.workloads, seen.pod_groups) = (one.clone(), vec![group("a")]);
        let goes_on = next_step(&seen, &with_gate(), &Config::default()).unwrap();
        assert_eq!(step_text(&goes_on), "create 4 in a", "{reason}: what was waited for came");
    }
}

// Another Workload of the same name was joined without a word.
// Shows: S001-10
#[test]
fn a_reference_with_the_uid_of_another_workload_is_waited_for_and_said() {
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
    let said = &status.conditions[0];
    assert_eq!((said.kind.as_str(), said.reason.as_str()), ("SchedulingBlocked", "WorkloadNotFound"));
    assert_eq!(
        said.message,
        "spec.workloadRef: there is no Workload shared with uid other; the one of that name has uid shared: make the Job \
         anew with that uid, or without one"
    );
}

// Shows: S001-17
// Shows: S001-18
#[test]
fn without_the_gate_or_the_field_a_job_is_as_ever() {
    let as_ever = step_text(&step(&observed(gang(None), vec![], 1)));
    assert_eq!(step_text(&step(&observed(naming(gang(None), "shared"), vec![], 1))), as_ever, "the gate is off");
    let seen = observed(gang(None), vec![], 1);
    assert_eq!(
        step_text(&next_step(&seen, &with_gate(), &Config::default()).unwrap()),
        as_ever,
        "the field is not there"
    );
    let child = child("job-uid", &[(TEMPLATE_ANNOTATION, "workers")]);
    let waits = step_text(&step(&observed(child, vec![], 1)));
    assert!(waits.ends_with("!ParentWorkloadNotFound"), "a child waits for its parent's: {waits}");
}

#[test]
fn a_job_says_what_its_group_waits_for_until_it_is_placed() {
    let mut seen = with_objects(gang(None));
    seen.pods = ["a", "b", "c", "d"].map(|name| pod(name).build()).to_vec();
    let said = step(&seen);
    apply_status(&mut seen, said);
    assert_eq!(step_text(&step(&seen)), "rest");
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
    assert_eq!(placed_at_once, "rest", "a group that is placed at once costs no write");

    scheduled(&mut seen, "False", "Unschedulable", "3 of 4 pods fit");
    let said = step(&seen);
    apply_status(&mut seen, said);
    assert_eq!(on_job(&seen), Some(format!("False Unschedulable PodGroup {name}: 3 of 4 pods fit")));
    let since = |seen: &JobSnapshot| {
        let found = seen.job.status.conditions.iter().find(|condition| condition.kind == "PodGroupScheduled");
        found.and_then(|condition| condition.last_transition_time)
    };
    assert_eq!(since(&seen), Some(at(1)));
    seen.now = at(5);
    scheduled(&mut seen, "False", "Unschedulable", "2 of 4 pods fit");
    let said = step(&seen);
    apply_status(&mut seen, said);
    assert_eq!(on_job(&seen), Some(format!("False Unschedulable PodGroup {name}: 2 of 4 pods fit")));
    assert_eq!(since(&seen), Some(at(1)), "other words for the same are no transition");
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
    let said = step(&stopped);
    apply_status(&mut stopped, said);
    assert_eq!(on_job(&stopped), None, "a suspended Job waits for nothing");
    let mut late = seen.clone();
    let mut job = (*seen.job).clone();
    job.spec.active_deadline_seconds = Some(0);
    late.job = Arc::new(job);
    let said = step(&late);
    assert!(step_text(&said).ends_with("FailureTarget"), "{}", step_text(&said));
    apply_status(&mut late, said);
    assert_eq!(on_job(&late), on_job(&seen), "one that waited until its deadline says what it waited for");

    scheduled(&mut seen, "True", "Scheduled", "");
    let said = step(&seen);
    apply_status(&mut seen, said);
    assert_eq!(on_job(&seen), Some(format!("True Scheduled PodGroup {name} is placed")));
    assert_eq!(since(&seen), Some(at(5)));
}
