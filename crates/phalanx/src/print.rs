//! Writes to standard output and standard error. A reader that went away is never a panic.
//!
//! `main.rs` has `print!`, `println!` and `eprintln!` of this crate mean these functions.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a result could not be written although its reader is there: a full disk, for example.
static RESULT_LOST: AtomicBool = AtomicBool::new(false);

/// Writes a part of the result.
pub fn result(text: Arguments<'_>) {
    let mut out = anstream::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        // `phalanx config | head -1`: the reader has what it wanted.
        Err(error) if error.kind() != ErrorKind::BrokenPipe && !RESULT_LOST.swap(true, Ordering::Relaxed) => {
            drop(out);
            message(format_args!("error: cannot write the result: {error}\n"));
        }
        _ => {}
    }
}

/// Writes progress or a problem. There is no other place for it: where it cannot be written, it is lost.
pub fn message(text: Arguments<'_>) {
    let mut out = anstream::stderr().lock();
    _ = out.write_fmt(text).and_then(|()| out.flush());
}

/// Whether some of the result could not be written.
pub fn result_was_lost() -> bool {
    RESULT_LOST.load(Ordering::Relaxed)
}
