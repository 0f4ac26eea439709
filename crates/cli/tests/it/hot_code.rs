//! The linker script that places the functions of a typical message next to each other.

use object::{Object, ObjectSection, ObjectSymbol};

#[test]
fn functions_of_a_message_are_next_to_each_other() {
    let flags = option_env!("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if ["mold", "wild", "fuse-ld", "linker="].iter().any(|name| flags.contains(name)) {
        return;
    }
    let program = std::fs::read(env!("CARGO_BIN_EXE_phalanx")).unwrap();
    let program = object::File::parse(&*program).unwrap();
    let section = program.section_by_name(".phalanx_hot").expect("the script is used");
    let addresses = section.address()..section.address() + section.size();
    assert!((64 << 10..1 << 20).contains(&section.size()), "{} bytes", section.size());
    let address = |name: &str| {
        let named = |symbol: &object::Symbol<'_, '_>| {
            symbol.name().is_ok_and(|symbol| symbol.contains(name))
        };
        program.symbols().find(named).map(|symbol| symbol.address())
    };
    let begin = address("7phalanx6worker8hot_code5begin").unwrap();
    let end = address("7phalanx6worker8hot_code3end").unwrap();
    assert_eq!(begin, addresses.start);
    assert!(begin < end && end < addresses.end);
    // These are large, so that they are never merged with their callers.
    for name in [
        "14phalanx_driver5uring8complete",
        "12phalanx_core9processor3run6cohort",
        "14phalanx_broker10connection6reader14serve_accepted",
        "14phalanx_broker7routing5stage5route",
        "14phalanx_broker7session9partition8Sessions7deliver",
        "12phalanx_mqtt6packet6Packet6encode",
    ] {
        let is_inside = |symbol: object::Symbol<'_, '_>| {
            symbol.name().is_ok_and(|symbol| symbol.contains(name))
                && (begin..end).contains(&symbol.address())
        };
        assert!(program.symbols().any(is_inside), "{name}");
    }
}
