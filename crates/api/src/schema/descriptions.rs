//! Our words for workload-aware scheduling, for `kubectl explain`. Other kinds have none: upstream's sentences are not
//! ours to copy.

/// What a type is for, or what one of its fields says.
pub fn description(type_name: &str, field: Option<&str>) -> Option<&'static str> {
    let mut parts = type_name.splitn(3, '.');
    let (group, _version, name) = (parts.next()?, parts.next()?, parts.next()?);
    let told = group == "scheduling" || name == "JobSchedulingConfiguration";
    match field {
        None if told => find(TYPE_DESCRIPTIONS, name),
        None => None,
        Some("apiVersion" | "kind" | "metadata") => None,
        Some(field) if told => find(FIELD_DESCRIPTIONS, &format!("{name}.{field}")).or_else(|| find(SHARED, field)),
        Some(field) => find(FIELD_DESCRIPTIONS, &format!("{name}.{field}")),
    }
}

type DescriptionTable = &'static [(&'static str, &'static str)];

fn find(sentences: DescriptionTable, key: &str) -> Option<&'static str> {
    sentences.iter().find(|(known, _)| *known == key).map(|(_, sentence)| *sentence)
}

/// What each type is for. The versions of a type mean the same.
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
    ("CompositePodGroupSpec", "What is wanted of the composite."),
    ("CompositePodGroupStatus", "What has become of the composite."),
    ("CompositePodGroupTemplate", "The pattern of one composite, with the patterns of the groups inside it."),
    ("DisruptionMode", "Whether the pods of the group may be disrupted one by one. Exactly one member is set."),
    ("GangSchedulingPolicy", "The pods of the group start together or not at all."),
    (
        "JobSchedulingConfiguration",
        "How the pods of a Job are scheduled as one group. The Job controller makes a Workload and a PodGroup of it.",
    ),
    (
        "PodGroup",
        "Pods that are scheduled as one. A pod joins by naming the group in spec.schedulingGroup.podGroupName.",
    ),
    (
        "PodGroupResourceClaim",
        "A resource claim that all pods of the group share. Exactly one of the two sources is set.",
    ),
    ("PodGroupResourceClaimStatus", "Which ResourceClaim stands behind one entry of spec.resourceClaims."),
    ("PodGroupSchedulingConstraints", "Where the pods of the group may be placed."),
    ("PodGroupSchedulingPolicy", "How the pods of the group are scheduled. Exactly one member is set."),
    ("PodGroupSpec", "What is wanted of the group."),
    ("PodGroupStatus", "What has become of the group."),
    ("PodGroupTemplate", "The pattern of one pod group."),
    ("PodGroupTemplateReference", "Where the template stands from which a group was made."),
    ("Lease", "Which of several alike processes does the work, and until when unless it renews."),
    ("PriorityClass", "A name for a priority, which pods and groups of pods refer to."),
    ("SingleCompositeDisruptionMode", "Each group of the composite may be disrupted by itself. It has no fields."),
    ("SingleDisruptionMode", "Each pod of the group may be disrupted by itself. It has no fields."),
    ("TopologyConstraint", "All pods go to nodes that have the same value of one label."),
    ("TypedLocalObjectReference", "An object in the same namespace, by group, kind and name."),
    ("Workload", "The scheduling intent of one application: the pattern of each group of pods that it has."),
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
    ("WorkloadPodGroupTemplateReference", "A Workload, and the template in it."),
    ("WorkloadReference", "The Workload, and the template in it, from which a group was made."),
    ("WorkloadSpec", "The patterns of the groups. Exactly one of the two lists is filled."),
];

/// Fields whose meaning depends on the type that has them.
const FIELD_DESCRIPTIONS: DescriptionTable = &[
    ("CompositeDisruptionMode.all", "The groups of the composite are disrupted together."),
    ("CompositeDisruptionMode.single", "Each group of the composite may be disrupted by itself."),
    ("CompositePodGroupSchedulingPolicy.basic", "Each group is scheduled as soon as it fits; none waits for another."),
    ("CompositePodGroupSchedulingPolicy.gang", "At least minGroupCount groups are placed at once, or none is."),
    (
        "CompositePodGroupSpec.disruptionMode",
        "Whether the groups of the composite may be disrupted one by one; `single` when left out.",
    ),
    (
        "JobSpec.scheduling",
        "Makes the pods of the Job one group that is scheduled as a unit. Cannot be added, removed or made another policy later.",
    ),
    (
        "JobSpec.workloadRef",
        "The Workload that the Job belongs to, in the same namespace. Only with the feature gate JobWorkloadRef.",
    ),
    (
        "JobSchedulingConfiguration.schedulingPolicy",
        "How the pods of the Job are scheduled: `gang` together, `basic` one by one.",
    ),
    (
        "PodGroupSpec.disruptionMode",
        "Whether the pods of the group may be disrupted one by one; `single` when left out.",
    ),
    (
        "PodGroupSpec.workloadRef",
        "The Workload, and the template in it, from which the group was made. A group made by hand has none.",
    ),
    ("PodGroupStatus.resourceClaimStatuses", "The ResourceClaims behind spec.resourceClaims, once they exist."),
    ("PodGroupResourceClaim.name", "The name by which pods of the group refer to the claim."),
    ("PodGroupResourceClaimStatus.name", "The name of the entry in spec.resourceClaims."),
    (
        "PodGroupResourceClaimStatus.resourceClaimName",
        "The ResourceClaim that was made or found; empty while there is none.",
    ),
    ("PodGroupTemplateReference.name", "The name of the template in the Workload that spec.workloadRef names."),
    ("LeaseSpec.acquireTime", "When the holder got it."),
    ("LeaseSpec.holderIdentity", "Who holds it; empty when it was given back."),
    ("LeaseSpec.leaseDurationSeconds", "How long the others wait after they last saw it renewed."),
    ("LeaseSpec.leaseTransitions", "How often it has changed hands."),
    ("LeaseSpec.renewTime", "When the holder last said that it is alive."),
    ("PriorityClass.description", "What the class is meant for, in the words of whoever made it."),
    ("PriorityClass.globalDefault", "Whether pods that name no class get this one. At most one class should say so."),
    (
        "PriorityClass.preemptionPolicy",
        "Whether pods of the class may displace others: `PreemptLowerPriority` (also when left out) or `Never`.",
    ),
    ("PriorityClass.value", "The priority itself; larger numbers go first."),
    ("TypedLocalObjectReference.apiGroup", "The API group of the object; empty for the core group."),
    ("TypedLocalObjectReference.kind", "The kind of the object."),
    ("TypedLocalObjectReference.name", "The name of the object."),
    (
        "WorkloadPodGroupGangSchedulingPolicy.minCount",
        "So many pods must be placeable at once, or none is placed. Follows the Job's parallelism when left out.",
    ),
    ("WorkloadPodGroupResourceClaim.name", "The name by which pods of the group refer to the claim."),
];

/// Fields that mean the same wherever they stand.
const SHARED: DescriptionTable = &[
    ("all", "The pods of the group are disrupted together."),
    ("basic", "Each pod is scheduled by itself, as soon as it fits."),
    ("compositePodGroupTemplates", "Patterns of composites; at most 8, told apart by name."),
    ("conditions", "What was last observed, such as PodGroupInitiallyScheduled."),
    ("controllerRef", "The object whose controller made the Workload, such as a Job."),
    ("disruptionMode", "Whether the group may be disrupted in part or only as a whole."),
    ("gang", "At least minCount pods are placed at once, or none is."),
    ("key", "The node label, such as topology.kubernetes.io/zone, whose value is the same for all."),
    ("minCount", "So many pods must be placeable at once, or none is placed. At least 1."),
    ("minGroupCount", "So many groups must be placeable at once, or none is placed. At least 1."),
    ("name", "The name of the template, unique in the whole Workload."),
    ("parentCompositePodGroupName", "The composite that this group is part of; empty for a group that stands alone."),
    ("podGroupTemplateName", "The name of the template in that Workload."),
    ("podGroupTemplateRef", "The template from which the group was made. Now workloadRef."),
    ("podGroupTemplates", "Patterns of pod groups; at most 8, told apart by name."),
    ("preemptionPolicy", "Whether the group may displace others: `PreemptLowerPriority` or `Never`."),
    ("priority", "The priority of the group; larger numbers go first. Filled in from the class."),
    ("priorityClassName", "The PriorityClass that the priority comes from."),
    ("resourceClaimName", "A ResourceClaim that exists already."),
    ("resourceClaimTemplateName", "A ResourceClaimTemplate from which a claim for the group is made."),
    ("resourceClaims", "Resource claims that all pods of the group share; at most 4."),
    ("scheduledPods", "How many pods of the group have a node."),
    ("schedulingConstraints", "Where the pods may be placed; anywhere when left out."),
    ("schedulingPolicy", "How the members are scheduled: `gang` together, `basic` one by one."),
    ("single", "Each pod of the group may be disrupted by itself."),
    ("spec", "What is wanted."),
    ("status", "What has been observed."),
    ("templateName", "The name of the template in that Workload."),
    ("topology", "Labels whose value all nodes of the group have in common; at most one."),
    ("workload", "The Workload, and the template in it, from which the group was made."),
    ("workloadName", "The name of the Workload, in the same namespace."),
    ("workloadRef", "The Workload, and the template in it, from which this was made."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::table;

    #[test]
    fn every_field_of_workload_aware_scheduling_is_described() {
        let told = |name: &str| name.starts_with("scheduling.") || name == "batch.v1.JobSchedulingConfiguration";
        for of in table().types().filter(|of| told(&of.name)) {
            assert!(description(&of.name, None).is_some(), "{}", of.name);
            for field in of.fields.iter().filter(|field| !matches!(&*field.name, "apiVersion" | "kind" | "metadata")) {
                assert!(description(&of.name, Some(&field.name)).is_some(), "{}.{}", of.name, field.name);
            }
        }
        assert!(description("batch.v1.JobSpec", Some("scheduling")).is_some());
        assert_eq!(description("core.v1.PodSpec", Some("priority")), None);
    }

    #[test]
    fn every_sentence_describes_something() {
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
