//! How the value of one setting is read from YAML and written to it, and which values it allows.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use api::clock::{MAX_DURATION_SETTING, parse_duration_setting_at_least};
use api::gates::{Gates, GatesError};
use nodes::pod_lifecycle::RunTime;
use scheduler::KubeSchedulerConfiguration;
use serde_json::Value;

/// Paths of fields, each with what is wrong there.
pub type FieldErrors = Vec<(String, String)>;

/// The form of a setting in the file.
pub trait Format {
    /// The setting in memory.
    type Value;

    /// Parses `value`, which is at `path` and is not null.
    fn parse(&self, path: &str, value: &Value) -> Result<Self::Value, FieldErrors>;

    /// The YAML text of a default; `None` for a setting that is absent by default.
    fn yaml(&self, value: &Self::Value) -> Option<String>;

    /// The allowed values, for people.
    fn values(&self) -> String;
}

fn error<T>(path: &str, message: impl Into<String>) -> Result<T, FieldErrors> {
    Err(vec![(path.to_owned(), message.into())])
}

/// A string that is not empty.
pub struct Text;

impl Format for Text {
    type Value = String;

    fn parse(&self, path: &str, value: &Value) -> Result<String, FieldErrors> {
        match value {
            Value::String(text) if !text.is_empty() => Ok(text.clone()),
            _ => error(path, "must be a string"),
        }
    }

    fn yaml(&self, value: &String) -> Option<String> {
        Some(value.clone())
    }

    fn values(&self) -> String {
        "a string".to_owned()
    }
}

/// `HOST:PORT`, where the host may be missing.
///
/// Whether the host exists is known only when the server starts.
pub struct ListenAddress;

impl ListenAddress {
    /// What is wrong with `text`, if it is no `HOST:PORT`.
    pub fn syntax_error(text: &str) -> Option<String> {
        let wrong = |what: &str| Some(format!("{what}; must be like 127.0.0.1:6443"));
        if text.parse::<SocketAddr>().is_ok() {
            return None;
        }
        match text.rsplit_once(':') {
            None => wrong("the port is missing"),
            Some((_, port)) if port.parse::<u16>().is_err() => wrong("the port must be a number from 0 to 65535"),
            Some((host, _)) if !is_host(host) => wrong("the host is no name and no address"),
            Some(_) => None,
        }
    }
}

/// Whether `text` is empty, an address, or can be a name.
fn is_host(text: &str) -> bool {
    let is_name = text.chars().all(|character| character.is_alphanumeric() || matches!(character, '.' | '-' | '_'));
    is_name || text.parse::<IpAddr>().is_ok()
}

impl Format for ListenAddress {
    type Value = String;

    fn parse(&self, path: &str, value: &Value) -> Result<String, FieldErrors> {
        let text = Text.parse(path, value)?;
        match ListenAddress::syntax_error(&text) {
            Some(problem) => error(path, format!("Invalid value: {value}: {problem}")),
            None => Ok(text),
        }
    }

    fn yaml(&self, value: &String) -> Option<String> {
        Text.yaml(value)
    }

    fn values(&self) -> String {
        "HOST:PORT".to_owned()
    }
}

/// The path of a file; absent by default.
pub struct FilePath;

impl Format for FilePath {
    type Value = Option<PathBuf>;

    fn parse(&self, path: &str, value: &Value) -> Result<Option<PathBuf>, FieldErrors> {
        Text.parse(path, value).map(|file| Some(PathBuf::from(file)))
    }

    fn yaml(&self, value: &Option<PathBuf>) -> Option<String> {
        value.as_ref().map(|file| file.display().to_string())
    }

    fn values(&self) -> String {
        "a path".to_owned()
    }
}

/// A list of strings.
pub struct TextList;

impl Format for TextList {
    type Value = Vec<String>;

    fn parse(&self, path: &str, value: &Value) -> Result<Vec<String>, FieldErrors> {
        let texts = value.as_array().and_then(|items| {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
        });
        texts.map_or_else(|| error(path, "must be a list of strings"), Ok)
    }

    fn yaml(&self, value: &Vec<String>) -> Option<String> {
        Some(Value::from(value.clone()).to_string())
    }

    fn values(&self) -> String {
        "a list of strings".to_owned()
    }
}

/// Names of feature gates, each with true or false.
pub struct GateMap;

impl Format for GateMap {
    type Value = Vec<(String, String)>;

    fn parse(&self, path: &str, value: &Value) -> Result<Self::Value, FieldErrors> {
        let gates = value.as_object().and_then(|map| {
            let gate = |(name, on): (&String, &Value)| Some((name.clone(), on.as_bool()?.to_string()));
            map.iter().map(gate).collect::<Option<Vec<_>>>()
        });
        let Some(gates) = gates else { return error(path, "must be a mapping of names to true or false") };
        // Whether the gates that one depends on are on is checked later, together with the options.
        let errors: FieldErrors = gates.iter().filter_map(|gate| name_error(path, gate)).collect();
        if errors.is_empty() { Ok(gates) } else { Err(errors) }
    }

    fn yaml(&self, value: &Self::Value) -> Option<String> {
        let gates: Vec<String> = value.iter().map(|(name, on)| format!("{name}: {on}")).collect();
        Some(format!("{{{}}}", gates.join(", ")))
    }

    fn values(&self) -> String {
        "a mapping of names to true or false".to_owned()
    }
}

/// What is wrong with one gate, whatever the others are.
fn name_error(path: &str, gate: &(String, String)) -> Option<(String, String)> {
    match Gates::from_settings(std::slice::from_ref(gate)) {
        Ok(_) | Err(GatesError::MissingDependencies { .. }) => None,
        Err(error) => Some((format!("{path}.{}", gate.0), error.to_string())),
    }
}

/// True or false.
pub struct Flag;

impl Format for Flag {
    type Value = bool;

    fn parse(&self, path: &str, value: &Value) -> Result<bool, FieldErrors> {
        value.as_bool().map_or_else(|| error(path, "must be true or false"), Ok)
    }

    fn yaml(&self, value: &bool) -> Option<String> {
        Some(value.to_string())
    }

    fn values(&self) -> String {
        "true or false".to_owned()
    }
}

/// One of several fixed values, with the function that parses them.
pub struct Choice<T: 'static>(pub &'static [&'static str], pub fn(&str) -> Option<T>);

impl<T: PartialEq> Format for Choice<T> {
    type Value = T;

    fn parse(&self, path: &str, value: &Value) -> Result<T, FieldErrors> {
        let parsed = value.as_str().and_then(self.1);
        parsed.map_or_else(|| error(path, format!("must be {}", self.values())), Ok)
    }

    fn yaml(&self, value: &T) -> Option<String> {
        self.0.iter().find(|word| self.1(word).as_ref() == Some(value)).map(|&word| word.to_owned())
    }

    fn values(&self) -> String {
        self.0.join(" or ")
    }
}

/// A whole number within limits.
pub struct Number(pub RangeInclusive<u64>);

impl Format for Number {
    type Value = u64;

    fn parse(&self, path: &str, value: &Value) -> Result<u64, FieldErrors> {
        let number = value.as_u64().filter(|number| self.0.contains(number));
        number.map_or_else(|| error(path, format!("must be a number from {}", self.values())), Ok)
    }

    fn yaml(&self, value: &u64) -> Option<String> {
        Some(value.to_string())
    }

    fn values(&self) -> String {
        format!("{} to {}", self.0.start(), self.0.end())
    }
}

/// A share of a whole.
pub struct Share;

impl Format for Share {
    type Value = f64;

    fn parse(&self, path: &str, value: &Value) -> Result<f64, FieldErrors> {
        let share = value.as_f64().filter(|share| (0.0..=1.0).contains(share));
        share.map_or_else(|| error(path, format!("must be {}", self.values())), Ok)
    }

    fn yaml(&self, value: &f64) -> Option<String> {
        Some(value.to_string())
    }

    fn values(&self) -> String {
        "a share from 0 to 1".to_owned()
    }
}

/// A number that can be absent. The file shows the default.
pub struct NumberOr {
    /// The limits.
    pub number: Number,
    /// The value if the setting is absent.
    pub absent: u64,
}

impl Format for NumberOr {
    type Value = Option<u64>;

    fn parse(&self, path: &str, value: &Value) -> Result<Option<u64>, FieldErrors> {
        self.number.parse(path, value).map(Some)
    }

    fn yaml(&self, value: &Option<u64>) -> Option<String> {
        self.number.yaml(&value.unwrap_or(self.absent))
    }

    fn values(&self) -> String {
        self.number.values()
    }
}

/// A duration of at least this much.
///
/// Below its minimum a setting is a fault and not a short wait: every request times out, no watch can resume, failing
/// pods are replaced in a busy loop, gangs are released while their pods are being bound.
pub struct AtLeast(pub Duration);

impl AtLeast {
    fn parse_or(&self, path: &str, value: &Value, or: &str) -> Result<Duration, FieldErrors> {
        let duration = value.as_str().and_then(|text| parse_duration_setting_at_least(self.0, text));
        duration.map_or_else(
            || {
                let range = format!("must be a duration from {}{or}, such as 90s or 5m", self.values());
                error(path, format!("Invalid value: {value}: {range}"))
            },
            Ok,
        )
    }
}

impl Format for AtLeast {
    type Value = Duration;

    fn parse(&self, path: &str, value: &Value) -> Result<Duration, FieldErrors> {
        self.parse_or(path, value, "")
    }

    fn yaml(&self, value: &Duration) -> Option<String> {
        Some(duration_text(*value))
    }

    fn values(&self) -> String {
        format!("{} to {}", duration_text(self.0), duration_text(MAX_DURATION_SETTING))
    }
}

/// A duration of at least this much, or `never`.
pub struct AtLeastOrNever(pub Duration);

impl Format for AtLeastOrNever {
    type Value = Option<Duration>;

    fn parse(&self, path: &str, value: &Value) -> Result<Option<Duration>, FieldErrors> {
        match value.as_str() {
            Some("never") => Ok(None),
            _ => AtLeast(self.0).parse_or(path, value, ", or never").map(Some),
        }
    }

    fn yaml(&self, value: &Option<Duration>) -> Option<String> {
        Some(value.map_or("never".to_owned(), duration_text))
    }

    fn values(&self) -> String {
        format!("{}, or never", AtLeast(self.0).values())
    }
}

/// In the largest unit that divides it.
fn duration_text(duration: Duration) -> String {
    match (duration.as_secs(), duration.subsec_nanos()) {
        (seconds, 0) if seconds > 0 && seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        (seconds, 0) if seconds > 0 && seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{duration:?}"),
    }
}

/// A number of seconds, or `forever`.
pub struct SecondsOrForever;

impl Format for SecondsOrForever {
    type Value = RunTime;

    fn parse(&self, path: &str, value: &Value) -> Result<RunTime, FieldErrors> {
        let run_time = match value {
            Value::String(text) => RunTime::parse(text).filter(|parsed| *parsed == RunTime::Forever),
            Value::Number(number) => RunTime::parse(&number.to_string()),
            _ => None,
        };
        run_time.map_or_else(|| error(path, format!("must be {}", self.values())), Ok)
    }

    fn yaml(&self, value: &RunTime) -> Option<String> {
        Some(match value {
            RunTime::Forever => "forever".to_owned(),
            RunTime::For(duration) => duration.as_secs_f64().to_string(),
        })
    }

    fn values(&self) -> String {
        "a number of seconds, or forever".to_owned()
    }
}

/// kube-scheduler's own kind, which has its own rules.
pub struct KubeScheduler;

impl Format for KubeScheduler {
    type Value = KubeSchedulerConfiguration;

    fn parse(&self, path: &str, value: &Value) -> Result<KubeSchedulerConfiguration, FieldErrors> {
        KubeSchedulerConfiguration::read(value, &api::field::Path::new(path))
            .map_err(|errors| errors.iter().map(|error| (error.path.as_str().to_owned(), error.message())).collect())
    }

    /// The defaults that people change most; a test compares them with the type's.
    fn yaml(&self, _: &KubeSchedulerConfiguration) -> Option<String> {
        let lines = [
            "apiVersion: kubescheduler.config.k8s.io/v1",
            "kind: KubeSchedulerConfiguration",
            "profiles:",
            "- schedulerName: default-scheduler",
            "podInitialBackoffSeconds: 1",
            "podMaxBackoffSeconds: 10",
        ];
        Some(lines.map(|line| format!("\n    {line}")).concat())
    }

    fn values(&self) -> String {
        "a KubeSchedulerConfiguration".to_owned()
    }
}
