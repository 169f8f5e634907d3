//! See `testkit::fuzz::continue_token`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    testkit::fuzz::continue_token::check(input);
});
