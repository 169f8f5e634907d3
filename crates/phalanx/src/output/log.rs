//! `--log` and `--log-format`: the log on standard error, as text or as one JSON object per line.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::output::print;

/// Options of commands that keep running.
#[derive(Args, Clone, Debug, Default)]
pub struct LogArgs {
    /// Log filter, such as debug or apiserver=trace [default: $PHALANX_LOG; else warn for up, error for run, info for scheduler, controllers and nodes]
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// Format of the log on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object per line, with the fields of all spans; other messages have this form too
    Json,
}

/// The filter if there is no `--log`.
const VARIABLE: &str = "PHALANX_LOG";

/// Crates whose targets start with `phalanx_`. A filter names them without it.
const CRATES: [&str; 9] =
    ["api", "apiserver", "controllers", "controlplane", "nodes", "runtime", "scheduler", "scheduler_core", "store"];

/// Starts the log. The filter comes from `--log`, else from `PHALANX_LOG`, else it is `default_filter`.
pub fn start(args: &LogArgs, default_filter: &str) -> Result<(), String> {
    let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let filter = match (&args.log, variable) {
        (Some(text), _) => parse_filter("--log", text)?,
        (None, Some(value)) => parse_filter(VARIABLE, &value.to_string_lossy())?,
        (None, None) => EnvFilter::new(default_filter),
    };
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // If standard error is closed, an error about that has no place to go either.
    let log = log.log_internal_errors(false);
    match args.log_format {
        LogFormat::Text => log.with_ansi(colour).init(),
        LogFormat::Json => {
            print::use_json_messages();
            log.json().with_current_span(false).with_span_list(true).init();
        }
    }
    Ok(())
}

/// Parses the filter that `source` has.
fn parse_filter(source: &str, text: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(with_targets(text)).map_err(|error| format!("{source} {text}: {error}"))
}

/// The filter with the targets of our crates in place of their names.
fn with_targets(filter: &str) -> String {
    directives(filter).into_iter().map(with_target).collect::<Vec<_>>().join(",")
}

/// The parts of a filter. A comma between the fields of a span, as in `[request{id=1,user=a}]=debug`, ends no part.
fn directives(filter: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let ends_part = |character: char| {
        match character {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    };
    filter.split(ends_part).collect()
}

fn with_target(directive: &str) -> String {
    let directive = directive.trim();
    let (name, rest) = directive.split_at(directive.find(['=', ':', '[']).unwrap_or(directive.len()));
    // The folder of a crate can have a hyphen where its target has an underscore.
    let name_in_target = name.replace('-', "_");
    if CRATES.contains(&name_in_target.as_str()) {
        format!("phalanx_{name_in_target}{rest}")
    } else {
        directive.to_owned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::{CRATES, with_targets};

    #[test]
    fn names_of_crates_become_targets_and_all_else_stays() {
        for (filter, want) in [
            ("apiserver=trace", "phalanx_apiserver=trace"),
            ("warn, scheduler=debug,apiserver=info", "warn,phalanx_scheduler=debug,phalanx_apiserver=info"),
            ("scheduler-core=debug,scheduler_core=debug", "phalanx_scheduler_core=debug,phalanx_scheduler_core=debug"),
            ("store", "phalanx_store"),
            ("controllers::job=debug", "phalanx_controllers::job=debug"),
            (
                "apiserver[request{id=1,user=a}]=debug,api=off",
                "phalanx_apiserver[request{id=1,user=a}]=debug,phalanx_api=off",
            ),
            ("[decision{unit=a}]=debug", "[decision{unit=a}]=debug"),
            ("info,kube_client=off", "info,kube_client=off"),
            ("phalanx_apiserver=trace,phalanx=info", "phalanx_apiserver=trace,phalanx=info"),
            ("scheduler2=info", "scheduler2=info"),
        ] {
            assert_eq!(with_targets(filter), want);
        }
    }

    #[test]
    fn every_crate_of_the_binary_can_be_named() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        let (dependencies, _) = manifest.split_once("[dev-dependencies]").unwrap();
        let is_renamed = |name: &&str| {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("Cargo.toml");
            std::fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("name = \"phalanx-{name}\"")))
        };
        let names = dependencies.lines().filter_map(|line| line.strip_suffix(".workspace = true"));
        let mut renamed: Vec<String> = names.filter(is_renamed).map(|name| name.replace('-', "_")).collect();
        renamed.sort();
        assert_eq!(renamed, CRATES);
    }
}
