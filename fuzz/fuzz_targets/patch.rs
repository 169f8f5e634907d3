//! See `testkit::fuzz::patch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    testkit::fuzz::patch::check(input);
});
