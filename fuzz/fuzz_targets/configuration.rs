//! Any text as a configuration of each server: either every mistake is told in one line with its place, or what
//! was read can be judged, and what makes sense can be printed, and read again to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The same of each server's configuration.
macro_rules! look {
    ($server:ident, $text:expr) => {{
        use $server::{Config, Origins};
        let mut config = Config::new();
        let mut origins = Origins::default();
        match config.read($text, "fuzz.toml", "/base".as_ref(), &mut origins) {
            Err(errors) => {
                assert!(!errors.is_empty());
                for error in errors {
                    let line = error.to_string();
                    assert!(line.starts_with("fuzz.toml:"), "no place: {line}");
                    assert!(!line.contains('\n'), "more than a line: {line:?}");
                }
            }
            Ok(()) => {
                let senseless = config.check();
                for error in &senseless {
                    let line = error.clone().located(&origins).to_string();
                    assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
                }
                if !senseless.is_empty() {
                    // It is not printed for anybody.
                    return;
                }
                let printed = config.to_toml();
                let mut again = Config::new();
                again
                    .read(&printed, "printed", "".as_ref(), &mut Origins::default())
                    .unwrap_or_else(|errors| panic!("{errors:?} in\n{printed}"));
                assert_eq!(again.to_toml(), printed);
            }
        }
    }};
}

fn web(text: &str) {
    look!(phalanx_web, text);
}

fn broker(text: &str) {
    look!(phalanx_broker, text);
}

fuzz_target!(|text: &str| {
    web(text);
    broker(text);
});
