//! Arbitrary text as the configuration of each server: either every error is reported in one line with its
//! position, or the result can be checked, and a valid one can be printed and parsed again to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// Checks the configuration of one server.
macro_rules! check_config {
    ($server:ident, $text:expr) => {{
        use phalanx_config::{Origins, read, table};
        use $server::Config;
        let mut config = Config::new();
        let mut origins = Origins::default();
        match read(&mut config, $text, "fuzz.toml", "/base".as_ref(), &mut origins) {
            Err(errors) => {
                assert!(!errors.is_empty());
                for error in errors {
                    let line = error.to_string();
                    assert!(line.starts_with("fuzz.toml:"), "no place: {line}");
                    assert!(!line.contains('\n'), "more than a line: {line:?}");
                }
            }
            Ok(()) => {
                let errors = config.check();
                for error in &errors {
                    let line = error.clone().located(&origins).to_string();
                    assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
                }
                if !errors.is_empty() {
                    // An invalid configuration is not printed.
                    return;
                }
                let printed = table(&config).to_string();
                let mut again = Config::new();
                read(&mut again, &printed, "printed", "".as_ref(), &mut Origins::default())
                    .unwrap_or_else(|errors| panic!("{errors:?} in\n{printed}"));
                assert_eq!(table(&again).to_string(), printed);
            }
        }
    }};
}

fn web(text: &str) {
    check_config!(phalanx_web, text);
}

fn broker(text: &str) {
    check_config!(phalanx_broker, text);
}

fuzz_target!(|text: &str| {
    web(text);
    broker(text);
});
