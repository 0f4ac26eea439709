//! A struct of settings and the declarations of its keys in one place.

/// Declares a struct of settings: each field with its type, its default, and the method of [`Pass`](crate::Pass) that
/// declares its key, without the argument for the value. A field without `=` has the default of its type. The struct
/// implements [`Default`] and [`Keys`](crate::Keys); the order of the fields is that of the keys. `@section "…";` is
/// the heading of the fields after it.
///
/// ```
/// use std::time::Duration;
///
/// phalanx_config::settings! {
///     /// The irrigation of a garden.
///     #[derive(Clone, Debug, PartialEq)]
///     pub struct Irrigation {
///         @section "Irrigation";
///         /// Maximum amount of water per day, in litres.
///         pub water: u64 = 500 => range("max-water", 1.., "litres of water per day");
///         /// The pump; `None` for the public mains.
///         pub pump: Option<String> => key("pump", "name of the pump");
///         /// Size of the log in bytes.
///         pub log: u64 = 1 << 20 => key_as::<phalanx_config::Size>("log-size", "size of the log");
///         /// Whether to start immediately.
///         pub starts: bool => none();
///     }
/// }
///
/// let table = phalanx_config::table(&Irrigation::default());
/// assert_eq!(table.to_string(), "log-size = \"1M\"\nmax-water = 500\npump = false\n");
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $(
                $(@section $section:literal;)?
                $(#[$field_meta:meta])*
                $field_visibility:vis $field:ident: $type:ty $(= $default:expr)?
                    => $method:ident $(::<$form:ty>)? ($($argument:tt)*);
            )*
        }
    ) => {
        $(#[$meta])*
        $visibility struct $name {
            $($(#[$field_meta])* $field_visibility $field: $type,)*
        }

        impl ::std::default::Default for $name {
            fn default() -> Self {
                Self { $($field: $crate::settings!(@default $($default)?),)* }
            }
        }

        impl $crate::Keys for $name {
            fn keys(&mut self, pass: &mut $crate::Pass<'_, '_>) {
                $(
                    $(pass.section($section);)?
                    $crate::settings!(@key self pass $field $method $(::<$form>)? ($($argument)*));
                )*
            }
        }
    };
    (@key $own:ident $pass:ident $field:ident with ($declare:expr)) => { $declare($own, $pass) };
    (@key $own:ident $pass:ident $field:ident part ()) => { $crate::Keys::keys(&mut $own.$field, $pass) };
    (@key $own:ident $pass:ident $field:ident none ()) => {};
    (@key $own:ident $pass:ident $field:ident $method:ident $(::<$form:ty>)? ($key:literal $(, $argument:expr)*)) => {
        $pass.$method$(::<$form, _>)?($key, &mut $own.$field $(, $argument)*)
    };
    (@default) => { ::std::default::Default::default() };
    (@default $default:expr) => { $default };
}
