//! See `testkit::fuzz::store_file`.
#![no_main]

use std::panic;
use std::sync::Mutex;

/// The last panic. The store catches panics of its database, so most are not findings and none may end the process.
static LAST: Mutex<String> = Mutex::new(String::new());

fn remember(panic: &panic::PanicHookInfo<'_>) {
    *LAST.lock().expect("no thread panics while it has the lock") = panic.to_string();
}

libfuzzer_sys::fuzz_target!(init: panic::set_hook(Box::new(remember)), |input: &[u8]| {
    if panic::catch_unwind(|| testkit::fuzz::store_file::check(input)).is_err() {
        eprintln!("{}", LAST.lock().expect("no thread panics while it has the lock"));
        std::process::abort();
    }
});
