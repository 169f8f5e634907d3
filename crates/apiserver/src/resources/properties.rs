//! Properties of every kind, tested with generated documents, most of them nearly valid.

#![allow(clippy::unwrap_used)]

use api::conversion::ConversionContext;
use api::gates::{Gate, Gates};
use api::schema::{self, ValueType, table};
use api::{Random, Timestamp};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::resources::object::ApiObject;
use crate::resources::resource::Resource;

/// Strings that are valid somewhere, and some that never are.
const TEXTS: [&str; 44] = [
    "",
    "a",
    "b",
    "main",
    "a.b",
    "a/b",
    "-a",
    "Upper",
    "ü",
    "..",
    "/a/../b",
    "$(A)",
    "example.com/gpu",
    "cpu",
    "memory",
    "pods",
    "hugepages-2Mi",
    "requests.cpu",
    "metadata.labels",
    "limits.cpu",
    "10.0.0.1",
    "1::2",
    "10.0.0.01",
    "0-3,5",
    "3-1",
    "*/5 * * * *",
    "TZ=UTC @daily",
    "@every 1h",
    "Europe/Berlin",
    "Indexed",
    "NonIndexed",
    "Never",
    "Always",
    "OnFailure",
    "In",
    "Exists",
    "Gt",
    "NoSchedule",
    "Equal",
    "FailJob",
    "True",
    "PodScheduled",
    "None",
    "2030-01-01T00:00:00Z",
];
const NUMBERS: [i64; 12] = [0, 1, -1, 2, 3, 8, 443, 65_536, 100_001, i32::MAX as i64, i32::MIN as i64, i64::MIN];
const AMOUNTS: [&str; 10] = ["0", "1", "-1", "1500m", "2Gi", "1e3", "9223372036854775807E", "0.000000001", "", "x"];
/// The maximum number of values in a document, also for deeply nested kinds.
const MAX_VALUES: usize = 400;

/// Generates documents.
struct DocumentGenerator {
    random: Random,
    left: usize,
    /// One value of this many is of any type; none if zero.
    wrong_one_in: u64,
}

impl DocumentGenerator {
    fn new(seed: u64, wrong_one_in: u64) -> DocumentGenerator {
        DocumentGenerator { random: Random::seeded(seed), left: MAX_VALUES, wrong_one_in }
    }

    fn pick<T: Copy>(&self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize]
    }

    fn text(&self) -> String {
        match self.random.below(40) {
            0 => "a".repeat(self.pick(&[63, 64, 253, 254, 1_025])),
            1 => self.random.uid(),
            _ => self.pick(&TEXTS).to_owned(),
        }
    }

    fn any(&mut self) -> Value {
        match self.random.below(7) {
            0 => Value::Null,
            1 => json!(self.random.below(2) == 0),
            2 => json!(self.pick(&NUMBERS)),
            3 => json!(1.5),
            4 => json!([self.text(), {}, null]),
            5 => json!({"name": self.text(), "": []}),
            _ => json!(self.text()),
        }
    }

    /// A document of the kind, in the storage version.
    fn stored_document(&mut self, resource: &Resource) -> Value {
        let shape = table().kind(resource.storage_group, resource.storage_version, resource.kind).unwrap();
        self.object(shape, &resource.storage_api_version(), resource.kind)
    }

    /// A document of the kind, in the given version.
    fn document(&mut self, resource: &Resource, version: &str) -> Value {
        let shape = table().kind(resource.group, version, resource.kind).unwrap();
        self.object(shape, &resource.api_version(version), resource.kind)
    }

    fn object(&mut self, shape: ValueType, api_version: &str, kind: &str) -> Value {
        self.left = MAX_VALUES;
        let mut document = self.value(shape, 0);
        if document.is_object() {
            document["apiVersion"] = api_version.into();
            document["kind"] = kind.into();
        }
        document
    }

    fn value(&mut self, shape: ValueType, depth: u64) -> Value {
        self.left = self.left.saturating_sub(1);
        if depth > 0 && self.wrong_one_in > 0 && self.random.below(self.wrong_one_in) == 0 {
            return self.any();
        }
        match shape {
            ValueType::Text | ValueType::Bytes => json!(self.text()),
            ValueType::Time => json!(self.pick(&["2030-01-01T00:00:00Z", "2020-02-29T12:00:00Z"])),
            ValueType::Quantity => json!(self.pick(&AMOUNTS)),
            ValueType::IntOrString if self.random.below(2) == 0 => json!(self.text()),
            ValueType::Int32 | ValueType::IntOrString => json!(self.pick(&NUMBERS[..11])),
            ValueType::Int64 => json!(self.pick(&NUMBERS)),
            ValueType::Boolean => json!(self.random.below(2) == 0),
            ValueType::Any => self.any(),
            ValueType::List(inner) => {
                let count = if self.left == 0 { 0 } else { self.random.below(4) };
                (0..count).map(|_| self.value(table().element_type(inner), depth + 1)).collect()
            }
            ValueType::Map(inner) => {
                let count = if self.left == 0 { 0 } else { self.random.below(3) };
                let entry = |generator: &mut DocumentGenerator| {
                    (generator.text(), generator.value(table().element_type(inner), depth + 1))
                };
                Value::Object((0..count).map(|_| entry(self)).collect::<Map<_, _>>())
            }
            ValueType::Object(number) => {
                let mut members = Map::new();
                for field in &table().object(number).fields {
                    // The top level and the spec are nearly complete. Deeper levels are sparser.
                    if self.left > 0 && self.random.below(depth + 2) <= 1 {
                        members.insert(field.name.to_string(), self.value(field.value_type, depth + 1));
                    }
                }
                Value::Object(members)
            }
        }
    }
}

fn kinds() -> Vec<Resource> {
    super::all(&Gates::default())
}

/// All gates on, all off, or one of them off.
fn gates(seed: u64) -> Gates {
    let all = |on: bool| Gate::ALL.into_iter().fold(Gates::default(), |gates, gate| gates.with(gate, on));
    match seed % 3 {
        0 => all(true),
        1 => all(false),
        _ => all(true).with(Gate::ALL[(seed / 3) as usize % Gate::ALL.len()], false),
    }
}

/// The object as the kind's own functions receive it; `None` if it is refused before.
fn accepted(resource: &Resource, document: Value) -> Option<ApiObject> {
    let mut object = ApiObject::new(document).ok()?;
    let findings =
        schema::check(resource.storage_group, resource.storage_version, resource.kind, object.document_mut());
    findings.type_errors.is_empty().then_some(object)
}

/// Calls every function of the kind with `new`, and with `old` as the object before.
fn call_strategy(resource: &Resource, new: &ApiObject, old: &ApiObject, gates: &Gates) {
    let strategy = &resource.strategy;
    let mut made = new.clone();
    (strategy.defaults)(&mut made, gates);
    (strategy.prepare_create)(&mut made, gates);
    let _ = (strategy.validate_create)(&made, gates);
    let (mut changed, mut reported) = (new.clone(), new.clone());
    (strategy.prepare_update)(&mut changed, old, gates);
    let _ = (strategy.validate_update)(&changed, old, gates);
    reported.copy_field_from(old, "spec");
    (strategy.prepare_status_update)(&mut reported, old, gates);
    let _ = (strategy.validate_status_update)(&reported, old, gates);
    let _ = (strategy.validate_finalize)(&changed, old, gates);
    let (_, _) = ((strategy.warnings)(new, Some(old)), (strategy.fields)(new));
    let _ = (strategy.table.cells)(new, Timestamp::UNIX_EPOCH);
    let (_, _) = ((strategy.grace_seconds)(new, None), (strategy.has_spec_finalizers)(new));
    (strategy.mark_deleting)(&mut made);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn defaulting_is_idempotent(seed in any::<u64>()) {
        let (mut generator, gates) = (DocumentGenerator::new(seed, 0), gates(seed));
        for resource in kinds() {
            let document = generator.stored_document(&resource);
            let Some(mut once) = accepted(&resource, document) else { continue };
            (resource.strategy.defaults)(&mut once, &gates);
            let mut twice = once.clone();
            (resource.strategy.defaults)(&mut twice, &gates);
            prop_assert_eq!(once.document(), twice.document(), "{}", resource.kind);
        }
    }

    #[test]
    fn no_document_makes_a_kind_panic(seed in any::<u64>(), wrong_one_in in prop_oneof![Just(0), Just(20), Just(2)]) {
        let (mut generator, gates) = (DocumentGenerator::new(seed, wrong_one_in), gates(seed));
        for resource in kinds() {
            for version in resource.served_versions() {
                let mut draft = generator.document(&resource, version);
                let _ = (resource.strategy.normalize_drafts)(&mut draft, &gates);
                if let Some(conversion) = resource.conversion(version) {
                    let context = ConversionContext { namespace: "default", old: None, workload: &|_| None };
                    if (conversion.to_storage)(&mut draft, &context).is_ok() {
                        (conversion.from_storage)(&mut draft);
                    }
                }
            }
            let [new, old] = [0, 1].map(|_| generator.stored_document(&resource));
            let (Some(new), Some(mut old)) = (accepted(&resource, new), accepted(&resource, old)) else { continue };
            (resource.strategy.defaults)(&mut old, &gates);
            let mut near = old.clone();
            near.copy_field_from(&new, ["spec", "status", "metadata"][(seed % 3) as usize]);
            for new in [&new, &near, &old].into_iter().filter(|new| new.document()["metadata"].is_object()) {
                call_strategy(&resource, new, &old, &gates);
            }
        }
    }
}

#[test]
fn generated_documents_are_validated_and_some_are_valid() {
    let mut verdicts = [0_usize; 3];
    for seed in 0..300 {
        let mut generator = DocumentGenerator::new(seed, 0);
        for resource in kinds() {
            let document = generator.stored_document(&resource);
            let Some(mut object) = accepted(&resource, document) else { continue };
            (resource.strategy.defaults)(&mut object, &Gates::default());
            match (resource.strategy.validate_create)(&object, &Gates::default()) {
                Err(_) => verdicts[0] += 1,
                Ok(errors) if errors.is_empty() => verdicts[1] += 1,
                Ok(_) => verdicts[2] += 1,
            }
        }
    }
    let [untyped, good, faulty] = verdicts;
    assert!(faulty > 1_000 && faulty > 10 * untyped && good > 0, "too few are validated: {verdicts:?}");
}
