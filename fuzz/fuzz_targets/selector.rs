//! See `testkit::fuzz::selector`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    testkit::fuzz::selector::check(input);
});
