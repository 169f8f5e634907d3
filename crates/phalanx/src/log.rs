//! `--log` and `--log-format`: the log on standard error, as text or as one JSON object per line.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::print;

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

/// Starts the log. The filter comes from `--log`, else from `PHALANX_LOG`, else it is `default_filter`.
pub fn start(args: &LogArgs, default_filter: &str) -> Result<(), String> {
    let filter = match &args.log {
        Some(text) => EnvFilter::try_new(text).map_err(|error| format!("--log {text}: {error}"))?,
        None => EnvFilter::try_from_env("PHALANX_LOG").unwrap_or_else(|_| EnvFilter::new(default_filter)),
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
