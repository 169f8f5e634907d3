//! Why a command ended badly: lines for people and an exit code.

use std::io;

use crate::cli;
use crate::deadline::NoAnswer;
use crate::manifest::Problem;

/// Why a command ended badly.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What is wrong and what to do, one line each; none: nobody is left to read them.
    pub lines: Vec<String>,
}

impl Failure {
    /// The command line asks for something that makes no sense.
    pub fn usage(line: impl Into<String>) -> Failure {
        Failure { code: cli::BAD_INPUT, lines: vec![line.into()] }
    }

    /// The cluster's answer is not the one hoped for.
    pub fn failed(line: impl Into<String>) -> Failure {
        Failure { code: cli::FAILED, lines: vec![line.into()] }
    }

    /// Nothing could be begun.
    pub fn cannot_start(line: impl Into<String>) -> Failure {
        Failure { code: cli::CANNOT_START, lines: vec![line.into()] }
    }

    /// Says it on standard error and returns the exit code.
    pub fn report(&self) -> u8 {
        for line in &self.lines {
            eprintln!("error: {line}");
        }
        self.code
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Failure {
        match &error {
            kube::Error::Api(status) if status.code == 401 => Failure::cannot_start(
                "the server does not accept the credentials of the kubeconfig (401); \
                 `phalanx up` writes a fresh one at every start, for others ask whoever runs the cluster",
            ),
            kube::Error::Api(status) => {
                let code = if matches!(status.code, 400 | 422) { cli::BAD_INPUT } else { cli::FAILED };
                Failure { code, lines: vec![status.message.clone()] }
            }
            kube::Error::Service(source) if let Some(no_answer) = source.downcast_ref::<NoAnswer>() => {
                let what = if no_answer.is_write { "; whether it did what was asked is not known" } else { "" };
                Failure::failed(format!(
                    "{no_answer}{what}; it may be overloaded or hang: try again, or wait longer with --request-timeout"
                ))
            }
            _ => Failure::cannot_start(format!(
                "cannot reach the server: {}; is `phalanx up` running, and is it the server of the kubeconfig?",
                runtime::failure::message(&error)
            )),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            // `phalanx get pods | head`: the reader has what it wanted.
            io::ErrorKind::BrokenPipe => Failure { code: cli::DONE, lines: Vec::new() },
            _ => Failure::failed(format!("cannot write the result: {error}")),
        }
    }
}

impl From<Vec<Problem>> for Failure {
    fn from(problems: Vec<Problem>) -> Failure {
        Failure { code: cli::BAD_INPUT, lines: problems.iter().map(Problem::to_string).collect() }
    }
}
