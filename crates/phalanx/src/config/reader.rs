//! Reads settings one after the other and gathers every problem with its line.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::format::Format;
use crate::config::settings::Setting;
use crate::manifest::{Manifest, Problem};

/// The document and the problems found so far.
pub struct ConfigurationReader<'a> {
    manifest: &'a Manifest,
    /// In the order in which they were found.
    pub problems: Vec<Problem>,
}

impl ConfigurationReader<'_> {
    /// A reader of one document.
    pub fn new(manifest: &Manifest) -> ConfigurationReader<'_> {
        ConfigurationReader { manifest, problems: Vec::new() }
    }

    /// The setting at `path`; `default` where it is absent, null or wrong.
    pub fn setting<F: Format>(&mut self, path: &str, format: &F, default: F::Value) -> F::Value {
        let value = path.split('.').try_fold(&self.manifest.document, |value, field| value.get(field));
        match value.filter(|value| !value.is_null()) {
            Some(value) => self.parse(path, value, format).unwrap_or(default),
            None => default,
        }
    }

    /// Parses the value at `path`; `None` where it is wrong, which is then among the problems.
    pub fn parse<F: Format>(&mut self, path: &str, value: &Value, format: &F) -> Option<F::Value> {
        match format.parse(path, value) {
            Ok(value) => Some(value),
            Err(errors) => {
                errors.iter().for_each(|(path, message)| self.problem(path, message));
                None
            }
        }
    }

    /// Reports every field at the top that does not have the value it must have.
    pub fn require(&mut self, fields: &[(&str, &str)]) {
        for (field, wanted) in fields {
            if self.manifest.document[*field] != *wanted {
                self.problem(field, &format!("must be {wanted}"));
            }
        }
    }

    /// Reports fields that are no settings. A former name of a setting gets the new one.
    pub fn refuse_unknown(&mut self, header: &[(&str, &str)], settings: &[Setting]) {
        let mut unknown = BTreeMap::new();
        let sections: Vec<&str> = {
            let mut names: Vec<&str> = settings.iter().map(|setting| setting.section).collect();
            names.dedup();
            names
        };
        let Some(fields) = self.manifest.document.as_object() else { return };
        for (field, value) in fields.iter().filter(|(field, _)| !header.iter().any(|(name, _)| name == field)) {
            if !sections.contains(&field.as_str()) {
                unknown.insert(field.clone(), format!("unknown field; known here are {}", sections.join(", ")));
            } else if let Some(section) = value.as_object() {
                let here: Vec<&Setting> = settings.iter().filter(|setting| setting.section == field).collect();
                let names = section.keys().filter(|name| !here.iter().any(|setting| setting.name == *name));
                unknown.extend(names.map(|name| (format!("{field}.{name}"), unknown_message(name, &here))));
            } else if !value.is_null() {
                unknown.insert(field.clone(), "must be a mapping".to_owned());
            }
        }
        for (path, message) in unknown {
            self.problem(&path, &message);
        }
    }

    /// Adds a problem with the line of `path`.
    pub fn problem(&mut self, path: &str, message: &str) {
        let problem = self.problem_at(path, message);
        self.problems.push(problem);
    }

    /// A message about the field at `path`, with its line.
    pub fn problem_at(&self, path: &str, message: &str) -> Problem {
        let Problem { file, line, .. } = self.manifest.problem(path, "");
        Problem { file, line, message: format!("{path}: {message}") }
    }
}

fn unknown_message(name: &str, section: &[&Setting]) -> String {
    if let Some(renamed) = section.iter().find(|setting| setting.former_name == Some(name)) {
        return format!("was renamed to {}", renamed.path());
    }
    let mut known: Vec<&str> = section.iter().map(|setting| setting.name).collect();
    known.sort_unstable();
    format!("unknown field; known here are {}", known.join(", "))
}
