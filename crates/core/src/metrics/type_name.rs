//! Display names of operation types.

use crate::operation::slot::Header;

impl Header {
    /// The operation's type, as displayed to users.
    pub(crate) fn operation(&self) -> &'static str {
        display_name((self.vtable.get().operation)())
    }
}

/// The part of a future's type name that identifies the operation to a user.
pub(crate) fn display_name(name: &'static str) -> &'static str {
    const CRATE: &str = env!("CARGO_CRATE_NAME");
    let inside_of = |name: &'static str, wrapper| name.strip_prefix(CRATE)?.strip_prefix(wrapper);
    // An operation from another processor is wrapped in a future that returns its result. An operation on a partition
    // is wrapped because the partition may have moved.
    let sent =
        inside_of(name, "::processor::remote::reply::RemoteFuture<").map(|list| argument(list, 0));
    let name = sent.unwrap_or(name);
    let on_partition = inside_of(name, "::handle::policy::moving::move_partition::RoutedCall<")
        .map(|list| argument(list, 2));
    let name = on_partition.unwrap_or(name);
    // A fibre is named after its body.
    let fibre = name.strip_prefix("phalanx_fibre::operation::FibreFuture<");
    let mut name = fibre.map_or(name, |list| argument(list, 0));
    while let Some(outer) = name.strip_suffix("::{{closure}}") {
        name = outer;
    }
    name
}

/// The argument at `number` of a list of generic arguments.
fn argument(list: &'static str, mut number: usize) -> &'static str {
    let (mut depth, mut begin) = (0usize, 0);
    let mut before = ' ';
    for (at, letter) in list.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            // This is the arrow before a function's return type, not a closing bracket.
            '>' if before == '-' => (),
            ',' if depth == 0 && number > 0 => {
                number -= 1;
                begin = at + 1;
            }
            ',' | '>' if depth == 0 => return list[begin..at].trim_start(),
            '>' | ')' | ']' => depth -= 1,
            _ => (),
        }
        before = letter;
    }
    list
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_program() {
        assert_eq!(display_name("web::serve::{{closure}}::{{closure}}"), "web::serve");
        let wrapped = "phalanx_core::processor::remote::reply::RemoteFuture<a::b<(u8, fn(u8) -> u8)>::{{closure}}, c, u8>";
        assert_eq!(display_name(wrapped), "a::b<(u8, fn(u8) -> u8)>");
        let placed = "phalanx_core::processor::remote::reply::RemoteFuture<phalanx_core::handle::policy::moving::move_partition::RoutedCall<\
                      t::S<u8, u8>, a::f::{{closure}}, a::f::{{closure}}::{{closure}}, u8>, u8>";
        assert_eq!(display_name(placed), "a::f");
        let fibre = "phalanx_fibre::operation::FibreFuture<a::f::{{closure}}, phalanx_fibre::operation::WithState<S, F>>";
        assert_eq!(display_name(fibre), "a::f");
    }
}
