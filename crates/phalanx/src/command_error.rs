//! Why a command failed: lines for people and an exit code.

use std::io;

use crate::cli;
use crate::client::deadline::ResponseTimeout;
use crate::manifest::Problem;

/// Why a command failed.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandError {
    /// The exit code.
    pub code: u8,
    /// What is wrong and what to do, one line each; empty if the reader of the output is gone.
    pub lines: Vec<String>,
}

impl CommandError {
    /// Bad usage.
    pub fn usage(line: impl Into<String>) -> CommandError {
        CommandError { code: cli::EXIT_BAD_INPUT, lines: vec![line.into()] }
    }

    /// The operation failed.
    pub fn failed(line: impl Into<String>) -> CommandError {
        CommandError { code: cli::EXIT_FAILED, lines: vec![line.into()] }
    }

    /// The command cannot start.
    pub fn cannot_start(line: impl Into<String>) -> CommandError {
        CommandError { code: cli::EXIT_CANNOT_START, lines: vec![line.into()] }
    }

    /// Prints the lines on standard error and returns the exit code.
    pub fn report(&self) -> u8 {
        for line in &self.lines {
            eprintln!("error: {line}");
        }
        self.code
    }
}

impl From<kube::Error> for CommandError {
    fn from(error: kube::Error) -> CommandError {
        match &error {
            kube::Error::Api(status) if status.code == 401 => CommandError::cannot_start(
                "the server does not accept the credentials of the kubeconfig (401); \
                 `phalanx up` writes a new one at every start; for another cluster, contact its administrator",
            ),
            kube::Error::Api(status) => {
                let code = if matches!(status.code, 400 | 422) { cli::EXIT_BAD_INPUT } else { cli::EXIT_FAILED };
                CommandError { code, lines: vec![status.message.clone()] }
            }
            kube::Error::Service(source) if let Some(timeout) = source.downcast_ref::<ResponseTimeout>() => {
                let result = if timeout.is_write { "; the result of the write is not known" } else { "" };
                CommandError::failed(format!(
                    "{timeout}{result}; it may be overloaded: try again, or use a longer --request-timeout"
                ))
            }
            _ => CommandError::cannot_start(format!(
                "cannot reach the server: {}; is `phalanx up` running, and is it the server of the kubeconfig?",
                runtime::failure::message(&error)
            )),
        }
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> CommandError {
        match error.kind() {
            // `phalanx get pods | head`: the reader needs no more output.
            io::ErrorKind::BrokenPipe => CommandError { code: cli::EXIT_DONE, lines: Vec::new() },
            _ => CommandError::failed(format!("cannot write the result: {error}")),
        }
    }
}

impl From<Vec<Problem>> for CommandError {
    fn from(problems: Vec<Problem>) -> CommandError {
        CommandError { code: cli::EXIT_BAD_INPUT, lines: problems.iter().map(Problem::to_string).collect() }
    }
}
