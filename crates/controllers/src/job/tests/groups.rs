//! Scheduling objects: created in order, found, updated, and never written when they are not ours.

use api::gates::Gate;
use api::views::{PodGroupView, WorkloadView};
use k8s_openapi::api::scheduling::v1beta1::{PodGroup, Workload};

use super::*;
use crate::job::ChildOwners;
use crate::job::pods::{PodFactory, PodSlot};
use crate::job::scheduling::owner_chain::{CachedOwnerChain, OwnerChain, OwnerLookup};
use crate::job::scheduling::{ManagementMode, TEMPLATE_ANNOTATION, management_mode};

pub(super) fn gang(min_count: Option<i32>) -> JobBuilder {
    let gang = min_count.map_or(json!({}), |count| json!({ "minCount": count }));
    let scheduling = json!({ "schedulingPolicy": { "gang": gang } });
    job(json!({ "completions": 4, "parallelism": 4, "scheduling": scheduling }))
}

pub(super) fn step(observed: &JobSnapshot) -> NextStep {
    next_step(observed, &Gates::default(), &Config::default()).unwrap()
}

/// The object as the server stores it.
pub(super) fn stored_workload(workload: &Workload) -> Arc<WorkloadView> {
    let mut document = serde_json::to_value(workload).unwrap();
    document["metadata"]["uid"] = json!("workload-uid");
    Arc::new(WorkloadView::decode(document.to_string().as_bytes()).unwrap())
}

pub(super) fn stored_group(group: &PodGroup) -> Arc<PodGroupView> {
    let mut document = serde_json::to_value(group).unwrap();
    document["metadata"]["uid"] = json!("group-uid");
    Arc::new(PodGroupView::decode(document.to_string().as_bytes()).unwrap())
}

/// A Job with the Workload and PodGroup that were created for it.
pub(super) fn with_objects(job: JobBuilder) -> JobSnapshot {
    let mut observed = observed(job, vec![], 1);
    let NextStep::CreateWorkload(workload) = step(&observed) else { panic!("a workload") };
    observed.workloads = vec![stored_workload(&workload)];
    let NextStep::CreatePodGroup(group) = step(&observed) else { panic!("a group") };
    observed.pod_groups = vec![stored_group(&group)];
    observed
}

pub(super) fn user_object<V: View>(document: Value) -> Arc<V> {
    Arc::new(V::decode(document.to_string().as_bytes()).unwrap())
}

pub(super) fn user_workload(name: &str, templates: Value) -> Arc<WorkloadView> {
    user_object(json!({
        "metadata": { "name": name, "namespace": "ns", "uid": name },
        "spec": { "controllerRef": { "apiGroup": "batch", "kind": "Job", "name": "train" }, "podGroupTemplates": templates },
    }))
}

// Shows: S000-17
// Shows: S000-18
// Shows: S000-19
// Shows: S000-45
// Shows: S000-52
// Shows: S000-60
// Shows: U-TestGenerateWorkload, U-TestCreatePodGroup, U-TestSyncJobPodSchedulingGroup
#[test]
fn workload_comes_before_group_before_pods() {
    let mut seen = observed(gang(None), vec![], 1);
    let NextStep::CreateWorkload(workload) = step(&seen) else { panic!("a workload") };
    assert_eq!(workload.metadata.name, Some(workloadbuilder::names::workload_name("train", "job-uid")));
    let meta = serde_json::to_value(&workload.metadata).unwrap();
    assert_eq!(meta["annotations"], json!({ "phalanx.dev/managed-by": "job-controller" }));
    assert_eq!(meta["ownerReferences"][0]["controller"], true);
    assert_eq!((&meta["namespace"], &meta["ownerReferences"][0]["uid"]), (&json!("ns"), &json!("job-uid")));
    let controller_ref = serde_json::to_value(&workload.spec.controller_ref).unwrap();
    assert_eq!(controller_ref, json!({ "apiGroup": "batch", "kind": "Job", "name": "train" }));
    seen.workloads = vec![stored_workload(&workload)];

    let NextStep::CreatePodGroup(group) = step(&seen) else { panic!("a group") };
    let owners = group.metadata.owner_references.clone().unwrap();
    assert_eq!(owners.iter().map(|owner| owner.kind.as_str()).collect::<Vec<_>>(), ["Job", "Workload"]);
    assert_eq!((owners[0].controller, owners[1].controller), (Some(true), None));
    assert_eq!(group.spec.scheduling_policy.gang.as_ref().unwrap().min_count, 4);
    seen.pod_groups = vec![stored_group(&group)];

    let NextStep::CreatePods(slots, joined) = step(&seen) else { panic!("pods") };
    assert_eq!(slots.len(), 4);
    let created = PodFactory::new(&seen.job, joined.as_ref()).unwrap().pod(PodSlot::default());
    let owners = created.metadata.owner_references.unwrap();
    assert_eq!(owners.iter().map(|owner| owner.uid.as_str()).collect::<Vec<_>>(), ["job-uid", "group-uid"]);
    assert_eq!((owners[1].controller, owners[1].block_owner_deletion), (None, None));
    assert_eq!(created.spec.unwrap().scheduling_group.unwrap().pod_group_name, group.metadata.name);
}

// Shows: S000-19
#[test]
fn pods_have_no_second_owner_where_the_garbage_collector_is_not_ours() {
    let seen = with_objects(gang(None));
    let config = Config { own_gc: false, ..Config::default() };
    let NextStep::CreatePods(_, group) = next_step(&seen, &Gates::default(), &config).unwrap() else { panic!("pods") };
    assert_eq!(group.unwrap().owner, None);
}

// A group that outlives the Job kept the pods of the deleted Job.
#[test]
fn only_a_group_that_is_deleted_with_the_job_is_a_second_owner_of_pods() {
    let second_owner = |seen: &JobSnapshot| {
        let NextStep::CreatePods(_, Some(group)) = step(seen) else { panic!("pods in a group") };
        group.owner.map(|owner| owner.uid)
    };
    let gang_template = json!([{ "name": "t", "schedulingPolicy": { "gang": { "minCount": 2 } } }]);
    let mut users = observed(gang(None), vec![], 1);
    users.workloads = vec![user_workload("mine", gang_template)];
    let NextStep::CreatePodGroup(created) = step(&users) else { panic!("a group of the user's Workload") };
    let owners: Vec<_> = created.metadata.owner_references.iter().flatten().map(|owner| owner.kind.as_str()).collect();
    assert_eq!(owners, ["Job"], "it is deleted with the Job, though the Workload stays");
    users.pod_groups = vec![stored_group(&created)];
    assert_eq!(second_owner(&users), Some("group-uid".to_owned()));

    let mut also_owned = (*users.pod_groups[0]).clone();
    let workload = OwnerRef { kind: "Workload".to_owned(), uid: "mine".to_owned(), ..OwnerRef::default() };
    also_owned.metadata.owner_references.push(workload);
    users.pod_groups = vec![Arc::new(also_owned)];
    assert_eq!(second_owner(&users), None, "the user's Workload owns it too");

    users.pod_groups = vec![user_object(json!({
        "metadata": { "name": "my-group", "namespace": "ns", "uid": "u" },
        "spec": { "workloadRef": { "workloadName": "mine", "templateName": "t" } },
    }))];
    assert_eq!(second_owner(&users), None, "a user created it");
}

// Shows: S000-12
// Shows: S000-27
// Shows: S000-59
// Shows: S004-19
// Shows: U-TestShouldManageWorkloadForJob
#[test]
fn management_mode_follows_the_owner_and_its_annotations() {
    let owned_by = |api_version: &str, kind: &str| {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        let owner = OwnerRef { api_version, kind, name: "parent".to_owned(), controller: true, ..OwnerRef::default() };
        gang(None).with(|job| job.metadata.owner_references = vec![owner])
    };
    let delegate = |job: &mut JobView| job.metadata.annotations.insert(TEMPLATE_ANNOTATION.to_owned(), String::new());
    for (case, job, want) in [
        ("a root", gang(None), ManagementMode::ManageBoth),
        ("a root with annotations", gang(None).with(delegate), ManagementMode::ManageBoth),
        ("a CronJob's", owned_by("batch/v1", "CronJob"), ManagementMode::ManageBoth),
        ("a child", owned_by("example.com/v1", "Training"), ManagementMode::ManageNone),
        (
            "a child with the annotation",
            owned_by("example.com/v1", "Training").with(delegate),
            ManagementMode::ManagePodGroupOnly,
        ),
        (
            "a pod template with a group",
            gang(None).with(|job| job.spec.template.scheduling_group = Some("mine".to_owned())),
            ManagementMode::ManageNone,
        ),
    ] {
        assert_eq!(management_mode(&job.0, &Gates::default(), &ChildOwners::default()), want, "{case}");
    }
    let off = Gates::default().with(Gate::WorkloadWithJob, false);
    assert_eq!(management_mode(&gang(None).0, &off, &ChildOwners::default()), ManagementMode::ManageNone);
}

// Shows: S000-33
// Shows: U-TestEnsureWorkloadAndPodGroup
#[test]
fn a_job_with_pods_gets_no_objects() {
    let pods = || vec![pod("a").failed_at(1).without_finalizer()];
    let plain = observed(job(json!({ "completions": 4, "parallelism": 4 })), pods(), 100);
    assert_eq!(step_text(&step(&plain)), "create 4");
    let mut seen = observed(gang(None), pods(), 100);
    let write = step(&seen);
    assert!(step_text(&write).ends_with("SchedulingFallback !WorkloadMissing"), "{}", step_text(&write));
    apply_status(&mut seen, write);
    assert_eq!(step_text(&step(&seen)), "create 4");
}

// The Job continued with pods that were in no group, and nothing reported it.
#[test]
fn a_gang_that_lost_its_group_reports_it_before_it_continues_with_plain_pods() {
    let pods = || ["a", "b", "c"].map(|name| pod(name).running().build()).to_vec();
    let lost = |job: JobBuilder, workload: bool| {
        let mut seen = with_objects(job);
        seen.pods = pods();
        seen.pod_groups.clear();
        if workload {
            seen.workloads.clear();
        }
        seen
    };
    for (workload, reason) in [(false, "PodGroupMissing"), (true, "WorkloadMissing")] {
        let mut seen = lost(gang(None), workload);
        let write = step(&seen);
        assert!(step_text(&write).ends_with(&format!("SchedulingFallback !{reason}")), "{}", step_text(&write));
        apply_status(&mut seen, write);
        assert_eq!(step_text(&step(&seen)), "create 1", "{reason}");
        seen.pods.clear();
        let created = step_text(&step(&seen));
        assert!(created.starts_with("create workload") || created.starts_with("create group"), "{reason}: {created}");
        let basic = job(json!({ "completions": 4, "parallelism": 4 }));
        assert_eq!(step_text(&step(&lost(basic, workload))), "create 1", "{reason}: a Basic group is not missed");
    }
}

#[test]
fn messages_about_a_missing_workload_or_template_have_the_names() {
    let message = |seen: &JobSnapshot| {
        let NextStep::WriteStatus(status, _) = step(seen) else { panic!("a status") };
        status.conditions[0].message.clone()
    };
    let mut seen = observed(child("job-uid", &[(TEMPLATE_ANNOTATION, "wokers")]), vec![], 1);
    assert_eq!(
        message(&seen),
        "there is no Workload of Training parent, which owns this Job and manages its PodGroup: create a Workload that \
         names Training parent in spec.controllerRef, or recreate the Job without the annotation \
         scheduling.k8s.io/group-template-name"
    );
    let basic = |name: &str| json!({ "name": name, "schedulingPolicy": { "basic": {} } });
    seen.workloads = vec![user_workload("parents", json!([basic("driver"), basic("workers")]))];
    assert_eq!(
        message(&seen),
        "annotation scheduling.k8s.io/group-template-name: Workload parents has no template \"wokers\" for pods; it has \
         driver, workers"
    );
    let mut root = observed(gang(None), vec![], 1);
    root.workloads = seen.workloads.clone();
    assert_eq!(
        message(&root),
        "Workload parents has no single template for the pods of this Job; it has driver, workers: leave only one, at the \
         top level"
    );
}

// Shows: S000-40
// Shows: U-TestSyncGangMinCount
#[test]
fn min_count_follows_the_job_workload_first() {
    let mut seen = with_objects(gang(None));
    let mut grown = (*seen.job).clone();
    (grown.spec.parallelism, grown.spec.completions) = (Some(6), Some(6));
    seen.job = Arc::new(grown);
    assert_eq!(step_text(&step(&seen)), "set minCount 6");
    let mut workload = (*seen.workloads[0]).clone();
    let templates = workload.spec.pod_group_templates.as_mut().unwrap();
    templates[0].scheduling_policy.gang.as_mut().unwrap().min_count = 6;
    seen.workloads = vec![Arc::new(workload)];
    let NextStep::SetMinCount(change) = step(&seen) else { panic!("the group follows") };
    assert!(matches!(change.object, crate::job::scheduling::ManagedObject::PodGroup(_)));
    seen.blocked = true;
    seen.pods = vec![pod("a").succeeded_at(1)].into_iter().map(PodBuilder::build).collect();
    let refused = step_text(&step(&seen));
    assert_eq!(refused, "status active=0 succeeded=0 failed=0 uncounted=a/", "pods are counted all the same");
}

// Shows: S000-30
// Shows: S000-31
// Shows: S000-37
// Shows: S000-38
// Shows: S000-40
// Shows: S001-09
#[test]
fn objects_of_others_are_used_and_never_written() {
    let gang_template = json!([{ "name": "t", "schedulingPolicy": { "gang": { "minCount": 2 } } }]);
    let mut seen = observed(gang(None), vec![], 1);
    seen.workloads = vec![user_workload("mine", gang_template)];
    let NextStep::CreatePodGroup(group) = step(&seen) else { panic!("a group from the user's template") };
    assert_eq!(group.spec.scheduling_policy.gang.as_ref().unwrap().min_count, 2);

    seen.pod_groups = vec![user_object(json!({
        "metadata": { "name": "my-group", "namespace": "ns", "uid": "u" },
        "spec": { "workloadRef": { "workloadName": "mine", "templateName": "t" }, "schedulingPolicy": { "gang": { "minCount": 3 } } },
    }))];
    assert_eq!(step_text(&step(&seen)), "create 4 in my-group");
}

// Shows: S000-36
// Shows: S000-43
// Shows: U-trap-ambiguous, U-trap-shape
#[test]
fn ambiguous_or_unsupported_workloads_are_reported_and_pods_are_plain() {
    let one = json!([{ "name": "t", "schedulingPolicy": { "basic": {} } }]);
    let two = json!([{ "name": "t", "schedulingPolicy": { "basic": {} } }, { "name": "u", "schedulingPolicy": { "basic": {} } }]);
    for (workloads, reason) in [
        (vec![user_workload("a", one.clone()), user_workload("b", one)], "AmbiguousWorkload"),
        (vec![user_workload("a", two)], "UnsupportedWorkload"),
    ] {
        let mut seen = observed(gang(None), vec![], 1);
        seen.workloads = workloads;
        let write = step(&seen);
        assert_eq!(step_text(&write), format!("status active=0 succeeded=0 failed=0 SchedulingFallback !{reason}"));
        let NextStep::WriteStatus(status, _) = write else { panic!("a status") };
        seen.job = Arc::new(JobView { status: *status, ..(*seen.job).clone() });
        assert_eq!(step_text(&step(&seen)), "create 4", "{reason}");
    }
}

#[test]
fn a_fallback_is_resolved_when_the_job_needs_no_group() {
    let one = json!([{ "name": "t", "schedulingPolicy": { "basic": {} } }]);
    let mut seen = observed(gang(None), vec![], 1);
    seen.workloads = vec![user_workload("a", one.clone()), user_workload("b", one)];
    let write = step(&seen);
    apply_status(&mut seen, write);
    let mut job = (*seen.job).clone();
    job.metadata.labels.insert("phalanx.dev/groups", "disabled".to_owned());
    seen.job = Arc::new(job);
    seen.pods = ["a", "b", "c", "d"].map(|name| pod(name).build()).to_vec();
    let write = step(&seen);
    apply_status(&mut seen, write);
    let condition = &seen.job.status.conditions[0];
    assert_eq!(
        (condition.kind.as_str(), condition.status.as_str(), condition.reason.as_str()),
        ("SchedulingFallback", "False", "Resolved")
    );
}

/// A child Job with these annotations of its parent.
pub(super) fn child(uid: &str, annotations: &[(&str, &str)]) -> JobBuilder {
    let owner = OwnerRef {
        api_version: "example.com/v1".to_owned(),
        kind: "Training".to_owned(),
        name: "parent".to_owned(),
        controller: true,
        ..OwnerRef::default()
    };
    gang(None).with(|job| {
        job.metadata.uid = uid.to_owned();
        job.metadata.owner_references = vec![owner];
        for (key, value) in annotations {
            job.metadata.annotations.insert((*key).to_owned(), (*value).to_owned());
        }
    })
}

// Shows: S004-23
// Shows: S004-53
#[test]
fn a_child_waits_for_its_parents_workload_and_then_creates_its_own_group() {
    let mut seen = observed(child("job-uid", &[(TEMPLATE_ANNOTATION, "workers")]), vec![], 1);
    let write = step(&seen);
    assert!(step_text(&write).ends_with("SchedulingBlocked !ParentWorkloadNotFound"), "{}", step_text(&write));
    apply_status(&mut seen, write);
    assert_eq!(
        step_text(&step(&seen)),
        "wait 1s",
        "reported once, and no plain pods meanwhile; then its owners are looked up again"
    );
    let templates = json!([
        { "name": "driver", "schedulingPolicy": { "basic": {} } },
        { "name": "workers", "schedulingPolicy": { "gang": { "minCount": 3 } } },
    ]);
    seen.workloads = vec![user_workload("parents", templates)];
    let NextStep::CreatePodGroup(group) = step(&seen) else { panic!("a group") };
    assert!(group.metadata.name.as_ref().unwrap().starts_with("parents-workers-"));
    assert_eq!(group.spec.scheduling_policy.gang.as_ref().unwrap().min_count, 3);
    assert_eq!(group.metadata.owner_references.as_ref().unwrap().len(), 1);
}

#[test]
fn a_child_that_waits_reports_all_its_owners_and_those_that_cannot_be_read() {
    let job = child("job-uid", &[(TEMPLATE_ANNOTATION, "workers")]);
    let mut chain = OwnerChain::from(job.0.metadata.controller().unwrap().clone());
    let above = OwnerRef { kind: "Flow".to_owned(), name: "night".to_owned(), controller: true, ..OwnerRef::default() };
    let above = OwnerRef { uid: "night-uid".to_owned(), ..above };
    chain
        .record_lookup(OwnerLookup::Found(Box::new(MetaView { owner_references: vec![above], ..MetaView::default() })));
    chain.record_lookup(OwnerLookup::Unreadable("flows \"night\" is forbidden".to_owned()));
    let cached = CachedOwnerChain { chain, lookups: 3, looked_up_at: at(0) };
    let mut seen = JobSnapshot { owner_chain: Some(Arc::new(cached)), ..observed(job, vec![], 1) };
    let NextStep::WriteStatus(status, events) = step(&seen) else { panic!("a status") };
    let want = "there is no Workload of Training parent or Flow night, which own this Job and manage its PodGroup: create a \
                Workload that names one of them in spec.controllerRef, or recreate the Job without the annotation \
                scheduling.k8s.io/group-template-name; the controller of Flow night cannot be read: flows \"night\" is \
                forbidden";
    assert_eq!((status.conditions[0].message.as_str(), events[0].message.as_str()), (want, want));
    seen.job = Arc::new(JobView { status: *status, ..(*seen.job).clone() });
    assert_eq!(step_text(&step(&seen)), "wait 3s", "three lookups, the last a second ago");
}

// Otherwise a Job whose Workload is its grandparent's would get plain pods when a request fails after a restart.
#[test]
fn a_child_whose_owners_cannot_be_read_counts_but_creates_and_reports_nothing() {
    let workers = [(TEMPLATE_ANNOTATION, "workers")];
    for pods in [vec![], vec![pod("a").running()]] {
        let active = pods.len();
        let job = child("job-uid", &workers).with(|job| job.status.active = active as i32);
        let unknown = JobSnapshot { owner_chain: None, blocked: true, ..observed(job, pods, 1) };
        assert_eq!(step_text(&step(&unknown)), "wait", "{active} pods");
    }
    let ended = observed(child("job-uid", &workers), vec![pod("a").succeeded_at(1)], 2);
    let write = step_text(&step(&JobSnapshot { owner_chain: None, blocked: true, ..ended }));
    assert_eq!(write, "status active=0 succeeded=0 failed=0 uncounted=a/");
}

// Shows: S004-54
// Shows: S004-55
// Shows: U-trap-nested-template
#[test]
fn a_child_finds_a_nested_template_and_sets_the_given_parent_group() {
    let nested: Arc<WorkloadView> = user_object(json!({
        "metadata": { "name": "parents", "namespace": "ns", "uid": "w" },
        "spec": { "compositePodGroupTemplates": [{
            "name": "set",
            "schedulingPolicy": { "basic": {} },
            "podGroupTemplates": [{ "name": "workers", "schedulingPolicy": { "gang": { "minCount": 3 } } }],
        }] },
    }));
    let created = |uid: &str, annotations: &[(&str, &str)]| {
        let mut seen = observed(child(uid, annotations), vec![], 1);
        seen.workloads = vec![nested.clone()];
        match step(&seen) {
            NextStep::CreatePodGroup(group) => Ok(group),
            other => Err(step_text(&other)),
        }
    };
    let workers = (TEMPLATE_ANNOTATION, "workers");
    let parent = |group: &PodGroup| group.spec.parent_composite_pod_group_name.clone();
    let alone = created("u1", &[workers]).unwrap();
    assert_eq!((alone.spec.scheduling_policy.gang.as_ref().unwrap().min_count, parent(&alone)), (3, None));
    for spelling in ["scheduling.k8s.io/parent-compositepodgroup", "scheduling.k8s.io/parent-composite-podgroup"] {
        let group = created("u1", &[workers, (spelling, "parents-set-0")]).unwrap();
        assert_eq!(parent(&group), Some("parents-set-0".to_owned()));
    }
    let first = created("u1", &[(TEMPLATE_ANNOTATION, "")]).unwrap();
    assert_eq!(first.metadata.name, alone.metadata.name, "without a name it is the first template for pods");
    let sibling = created("u2", &[workers]).unwrap();
    assert_ne!(sibling.metadata.name, alone.metadata.name, "siblings have different names");
    let composite = created("u1", &[(TEMPLATE_ANNOTATION, "set")]).unwrap_err();
    assert!(composite.contains("UnsupportedWorkload"), "{composite}");
}

// Shows: S002-12
#[test]
fn only_the_min_count_of_a_changed_workload_reaches_an_existing_group() {
    let parents = |count: i32, mode: Value| {
        let policy = json!({ "gang": { "minCount": count } });
        user_workload("parents", json!([{ "name": "workers", "schedulingPolicy": policy, "disruptionMode": mode }]))
    };
    let mut seen = observed(child("job-uid", &[(TEMPLATE_ANNOTATION, "workers")]), vec![], 1);
    seen.workloads = vec![parents(3, json!({ "single": {} }))];
    let NextStep::CreatePodGroup(group) = step(&seen) else { panic!("a group") };
    seen.pod_groups = vec![stored_group(&group)];
    let joined = step_text(&step(&seen));
    seen.workloads = vec![parents(3, json!({ "all": {} }))];
    assert_eq!(step_text(&step(&seen)), joined, "another mode applies to later groups");
    seen.workloads = vec![parents(2, json!({ "all": {} }))];
    let NextStep::SetMinCount(change) = step(&seen) else { panic!("the count follows") };
    assert_eq!(change.min_count, 2);
}
