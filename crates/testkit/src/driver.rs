//! The choice of drivers on which a test runs.

/// Whether a test runs on the driver named `driver` (`uring` or `poll`). Prints the reason if it does not.
///
/// The environment variable `PHALANX_DRIVER` restricts tests to one driver. `available` returns why the machine
/// lacks the driver.
///
/// # Panics
/// If the driver is not available and the environment has `PHALANX_REQUIRE_URING=1`.
pub fn is_selected<E: std::fmt::Display>(
    driver: &str,
    available: impl FnOnce() -> Result<(), E>,
) -> bool {
    let named = std::env::var("PHALANX_DRIVER").unwrap_or_default();
    if ["uring", "poll"].contains(&named.as_str()) && named != driver {
        println!("skipped: PHALANX_DRIVER={named}");
        return false;
    }
    if let Err(reason) = available() {
        assert!(std::env::var_os("PHALANX_REQUIRE_URING").is_none_or(|set| set != "1"), "{reason}");
        println!("skipped: {reason}");
        return false;
    }
    true
}

/// Makes each named function a test per driver, `name::uring` and `name::poll`, which calls
/// `run("uring", function)`: `per_driver!(run: one, two)`. With `per_driver!(run, sim: one, two)` there is
/// `name::sim`, too.
#[macro_export]
macro_rules! per_driver {
    ($run:path: $($name:ident),* $(,)?) => {
        $($crate::per_driver!(@ $run, $name: uring poll);)*
    };
    ($run:path, sim: $($name:ident),* $(,)?) => {
        $($crate::per_driver!(@ $run, $name: uring poll sim);)*
    };
    (@ $run:path, $name:ident: $($driver:ident)*) => {
        mod $name {
            $(#[test]
            #[cfg_attr(miri, ignore = "Miri has no sockets")]
            fn $driver() {
                $run(stringify!($driver), super::$name);
            })*
        }
    };
}
