//! Our descriptions of workload-aware scheduling, for `kubectl explain`. Other kinds have none, because upstream's
//! texts are not copied.

/// The description of a type or of one of its fields.
pub fn description(type_name: &str, field: Option<&str>) -> Option<&'static str> {
    let mut parts = type_name.splitn(3, '.');
    let (group, _version, name) = (parts.next()?, parts.next()?, parts.next()?);
    let described = group == "scheduling" || name == "JobSchedulingConfiguration";
    match field {
        None if described => find(TYPE_DESCRIPTIONS, name),
        None => None,
        Some("apiVersion" | "kind" | "metadata") => None,
        Some(field) if described => {
            find(FIELD_DESCRIPTIONS, &format!("{name}.{field}")).or_else(|| find(SHARED, field))
        }
        Some(field) => find(FIELD_DESCRIPTIONS, &format!("{name}.{field}")),
    }
}

type DescriptionTable = &'static [(&'static str, &'static str)];

fn find(sentences: DescriptionTable, key: &str) -> Option<&'static str> {
    sentences.iter().find(|(known, _)| *known == key).map(|(_, sentence)| *sentence)
}

/// Descriptions of types. All versions of a type have the same.
const TYPE_DESCRIPTIONS: DescriptionTable = &[
    ("AllCompositeDisruptionMode", "The groups of the composite are disrupted together. It has no fields."),
    ("AllDisruptionMode", "The pods of the group are disrupted together. It has no fields."),
    ("BasicSchedulingPolicy", "Each pod is scheduled by itself. It has no fields."),
    ("CompositeBasicSchedulingPolicy", "Each group is scheduled by itself. It has no fields."),
    (
        "CompositeDisruptionMode",
        "Whether the groups of a composite may be disrupted one by one. Exactly one member is set.",
    ),
    ("CompositeGangSchedulingPolicy", "The groups of the composite start together or not at all."),
    ("CompositePodGroup", "A set of pod groups, or of further composites, that are scheduled as one."),
    ("CompositePodGroupSchedulingConstraints", "Where the pods of the whole composite may be placed."),
    ("CompositePodGroupSchedulingPolicy", "How the groups of a composite are scheduled. Exactly one member is set."),
    ("CompositePodGroupSpec", "The desired state of the composite."),
    ("CompositePodGroupStatus", "The observed state of the composite."),
    ("CompositePodGroupTemplate", "The template of one composite, with the templates of its groups."),
    ("DisruptionMode", "Whether the pods of the group may be disrupted one by one. Exactly one member is set."),
    ("GangSchedulingPolicy", "The pods of the group start together or not at all."),
    (
        "JobSchedulingConfiguration",
        "How the pods of a Job are scheduled as one group. The Job controller creates a Workload and a PodGroup from it.",
    ),
    (
        "PodGroup",
        "Pods that are scheduled as one. A pod joins by naming the group in spec.schedulingGroup.podGroupName.",
    ),
    (
        "PodGroupResourceClaim",
        "A resource claim that all pods of the group share. Exactly one of the two sources is set.",
    ),
    ("PodGroupResourceClaimStatus", "The ResourceClaim of one entry of spec.resourceClaims."),
    ("PodGroupSchedulingConstraints", "Where the pods of the group may be placed."),
    ("PodGroupSchedulingPolicy", "How the pods of the group are scheduled. Exactly one member is set."),
    ("PodGroupSpec", "The desired state of the group."),
    ("PodGroupStatus", "The observed state of the group."),
    ("PodGroupTemplate", "The template of one pod group."),
    ("PodGroupTemplateReference", "A reference to the template of a group."),
    ("Lease", "The holder of a leader election, and until when it is the holder unless it renews."),
    ("PriorityClass", "A name for a priority, which pods and groups of pods refer to."),
    ("SingleCompositeDisruptionMode", "Each group of the composite may be disrupted by itself. It has no fields."),
    ("SingleDisruptionMode", "Each pod of the group may be disrupted by itself. It has no fields."),
    ("TopologyConstraint", "All pods are placed on nodes with the same value of one label."),
    ("TypedLocalObjectReference", "An object in the same namespace, by group, kind and name."),
    ("Workload", "The scheduling intent of one application: a template for each of its groups of pods."),
    ("WorkloadPodGroupAllDisruptionMode", "The pods of the group are disrupted together. It has no fields."),
    ("WorkloadPodGroupBasicSchedulingPolicy", "Each pod is scheduled by itself. It has no fields."),
    (
        "WorkloadPodGroupDisruptionMode",
        "Whether the pods of the group may be disrupted one by one. Exactly one member is set.",
    ),
    ("WorkloadPodGroupGangSchedulingPolicy", "The pods of the group start together or not at all."),
    (
        "WorkloadPodGroupResourceClaim",
        "A resource claim that all pods of the group share. Exactly one of the two sources is set.",
    ),
    ("WorkloadPodGroupSchedulingConstraints", "Where the pods of the group may be placed."),
    ("WorkloadPodGroupSchedulingPolicy", "How the pods of the group are scheduled. Exactly one member is set."),
    ("WorkloadPodGroupSingleDisruptionMode", "Each pod of the group may be disrupted by itself. It has no fields."),
    ("WorkloadPodGroupTemplateReference", "A Workload and one of its templates."),
    ("WorkloadReference", "The Workloadand template of a group."),
    ("WorkloadSpec", "The templates of the groups. Exactly one of the two lists is set."),
];

/// Fields whose meaning depends on the type that has them.
const FIELD_DESCRIPTIONS: DescriptionTable = &[
    ("CompositeDisruptionMode.all", "The groups of the composite are disrupted together."),
    ("CompositeDisruptionMode.single", "Each group of the composite may be disrupted by itself."),
    ("CompositePodGroupSchedulingPolicy.basic", "Each group is scheduled as soon as it fits and waits for no other."),
    ("CompositePodGroupSchedulingPolicy.gang", "At least minGroupCount groups are placed together, or none."),
    (
        "CompositePodGroupSpec.disruptionMode",
        "Whether the groups of the composite may be disrupted one by one; `single` if unset.",
    ),
    (
        "JobSpec.scheduling",
        "Makes the pods of the Job one group that is scheduled as a unit. It cannot be added or removed later, and the kind of policy cannot change.",
    ),
    (
        "JobSpec.workloadRef",
        "The Workload that the Job belongs to, in the same namespace. Used only with the feature gate JobWorkloadRef.",
    ),
    (
        "JobSchedulingConfiguration.schedulingPolicy",
        "How the pods of the Job are scheduled: `gang` together, `basic` one by one.",
    ),
    ("PodGroupSpec.disruptionMode", "Whether the pods of the group may be disrupted one by one; `single` if unset."),
    ("PodGroupSpec.workloadRef", "The Workloadand template of the group. A group that a user creates has none."),
    ("PodGroupStatus.resourceClaimStatuses", "The ResourceClaims of spec.resourceClaims, once they exist."),
    ("PodGroupResourceClaim.name", "The name by which pods of the group refer to the claim."),
    ("PodGroupResourceClaimStatus.name", "The name of the entry in spec.resourceClaims."),
    ("PodGroupResourceClaimStatus.resourceClaimName", "The ResourceClaim of the entry; empty while there is none."),
    ("PodGroupTemplateReference.name", "The name of the template in the Workload that spec.workloadRef names."),
    ("LeaseSpec.acquireTime", "When the holder acquired the lease."),
    ("LeaseSpec.holderIdentity", "The holder; empty after a release."),
    ("LeaseSpec.leaseDurationSeconds", "How long others wait after the last renewal before they acquire it."),
    ("LeaseSpec.leaseTransitions", "How often the holder has changed."),
    ("LeaseSpec.renewTime", "When the holder last renewed the lease."),
    ("PriorityClass.description", "The purpose of the class."),
    (
        "PriorityClass.globalDefault",
        "Whether pods that name no class get this one. At most one class should be the default.",
    ),
    (
        "PriorityClass.preemptionPolicy",
        "Whether pods of the class may displace others: `PreemptLowerPriority` (default) or `Never`.",
    ),
    ("PriorityClass.value", "The priority. Larger numbers are scheduled first."),
    ("TypedLocalObjectReference.apiGroup", "The API group of the object; empty for the core group."),
    ("TypedLocalObjectReference.kind", "The kind of the object."),
    ("TypedLocalObjectReference.name", "The name of the object."),
    (
        "WorkloadPodGroupGangSchedulingPolicy.minCount",
        "The number of pods that are placed together, or none is. If unset, the Job's parallelism.",
    ),
    ("WorkloadPodGroupResourceClaim.name", "The name by which pods of the group refer to the claim."),
];

/// Descriptions of fields that mean the same in all types.
const SHARED: DescriptionTable = &[
    ("all", "The pods of the group are disrupted together."),
    ("basic", "Each pod is scheduled by itself, as soon as it fits."),
    ("compositePodGroupTemplates", "Templates of composites, at most 8, with unique names."),
    ("conditions", "What was last observed, such as PodGroupInitiallyScheduled."),
    ("controllerRef", "The object whose controller created the Workload, such as a Job."),
    ("disruptionMode", "Whether the group may be disrupted in part or only as a whole."),
    ("gang", "At least minCount pods are placed together, or none."),
    ("key", "The node label, such as topology.kubernetes.io/zone, whose value is the same for all."),
    ("minCount", "The number of pods that are placed together, or none is. At least 1."),
    ("minGroupCount", "The number of groups that are placed together, or none is. At least 1."),
    ("name", "The name of the template, unique in the whole Workload."),
    ("parentCompositePodGroupName", "The parent composite; empty if there is none."),
    ("podGroupTemplateName", "The name of the template in that Workload."),
    ("podGroupTemplateRef", "The template of the group. Replaced by workloadRef."),
    ("podGroupTemplates", "Templates of pod groups, at most 8, with unique names."),
    ("preemptionPolicy", "Whether the group may displace others: `PreemptLowerPriority` or `Never`."),
    ("priority", "The priority of the group. Larger numbers are scheduled first. Set from the class."),
    ("priorityClassName", "The PriorityClass that the priority comes from."),
    ("resourceClaimName", "An existing ResourceClaim."),
    ("resourceClaimTemplateName", "A ResourceClaimTemplate from which a claim for the group is created."),
    ("resourceClaims", "Resource claims that all pods of the group share; at most 4."),
    ("scheduledPods", "How many pods of the group have a node."),
    ("schedulingConstraints", "Where the pods may be placed. If unset, anywhere."),
    ("schedulingPolicy", "How the members are scheduled: `gang` together, `basic` one by one."),
    ("single", "Each pod of the group may be disrupted by itself."),
    ("spec", "The desired state."),
    ("status", "The observed state."),
    ("templateName", "The name of the template in that Workload."),
    ("topology", "Labels whose value all nodes of the group have in common; at most one."),
    ("workload", "The Workloadand template of the group."),
    ("workloadName", "The name of the Workload, in the same namespace."),
    ("workloadRef", "The Workloadand template of the object."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::table;

    #[test]
    fn every_field_of_workload_aware_scheduling_is_described() {
        let described = |name: &str| name.starts_with("scheduling.") || name == "batch.v1.JobSchedulingConfiguration";
        for of in table().types().filter(|of| described(&of.name)) {
            assert!(description(&of.name, None).is_some(), "{}", of.name);
            for field in of.fields.iter().filter(|field| !matches!(&*field.name, "apiVersion" | "kind" | "metadata")) {
                assert!(description(&of.name, Some(&field.name)).is_some(), "{}.{}", of.name, field.name);
            }
        }
        assert!(description("batch.v1.JobSpec", Some("scheduling")).is_some());
        assert_eq!(description("core.v1.PodSpec", Some("priority")), None);
    }

    #[test]
    fn every_description_has_its_type_or_field() {
        let is_type = |name: &str| table().types().any(|of| of.name.ends_with(&format!(".{name}")));
        let has_field = |name: &str, field: &str| {
            table().types().any(|of| of.name.ends_with(&format!(".{name}")) && of.field(field).is_some())
        };
        for (name, sentence) in TYPE_DESCRIPTIONS {
            assert!(is_type(name) && sentence.ends_with('.'), "{name}");
        }
        for (path, sentence) in FIELD_DESCRIPTIONS {
            let (name, field) = path.split_once('.').expect("a type and a field");
            assert!(has_field(name, field) && sentence.ends_with('.'), "{path}");
        }
        for (field, sentence) in SHARED {
            let used =
                |of: &crate::schema::ObjectSchema| of.name.starts_with("scheduling.") && of.field(field).is_some();
            assert!(table().types().any(used) && sentence.ends_with('.'), "{field}");
        }
    }
}
