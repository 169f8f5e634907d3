//! See `testkit::fuzz::body`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    testkit::fuzz::body::check(input);
});
