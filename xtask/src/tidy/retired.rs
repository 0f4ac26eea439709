//! Retired names: words that were replaced in the whole repository and must not come back.

use super::{Fault, Tree};

/// This file, which contains the words itself.
const THIS_FILE: &str = "xtask/src/tidy/retired.rs";

/// Files in which old names are history.
const EXEMPT: &[&str] = &[THIS_FILE, "CHANGELOG.md"];

/// Extensions of the files that are searched.
const EXTENSIONS: &[&str] = &[".rs", ".md", ".toml"];

/// Retired text and its replacement. A name with an ordinary meaning is listed as part of an unambiguous text, for
/// example `struct Post`.
const RETIRED: &[(&str, &str)] = &[
    // core, driver and phalanx
    ("CallError::Elsewhere", "CallError::WrongProcessor"),
    ("CallError::Ended", "CallError::Cancelled"),
    ("CallError::Unanswered", "CallError::ReplyDropped"),
    ("CohortInProgress", "SerialCohort"),
    ("Drained::caused", "Drained::is_cause_of"),
    ("ENDLESS", "NONE"),
    ("FEW_REQUESTS", "MAX_UNSHARED_REQUESTS"),
    ("Faults::drawn", "Faults::random"),
    ("First::One", "Either::Left"),
    ("First::Other", "Either::Right"),
    ("HomedOptions", "AffineOptions"),
    ("HomedStage", "AffineStage"),
    ("LadderView", "CohortTunerView"),
    ("Links::Followed", "SymlinkPolicy::Follow"),
    ("Links::Refused", "SymlinkPolicy::Deny"),
    ("LocalBatch", "ItemHandler"),
    ("Mended", "Rebuildable"),
    ("NamedKind", "DirEntryKind"),
    ("OnStage", "StageExecutor"),
    ("Owed", "RemoteReply"),
    ("Parcel", "Envelope"),
    ("Patience", "IoTimeout"),
    ("PendingReplies", "PendingRequests"),
    ("QueuedLocally", "LocalQueuePolicy"),
    ("Remnant", "Leak"),
    ("RemoteEvent", "oneshot::Receiver"),
    ("RemotePlace", "RemoteSlot"),
    ("RemoteTrigger", "oneshot::Sender"),
    ("Rendezvous", "JoinRecord"),
    ("Sounding", "QueueDelayProbe"),
    ("StageRuntime", "ColdStage"),
    ("Trigger", "oneshot::LocalSender"),
    ("cohorts_found", "cohort_size_range"),
    ("come_home", "complete_remote"),
    ("enum Cargo", "Message"),
    ("first_of", "select_all"),
    ("follow_orders", "run_commands"),
    ("give_room", "wake_capacity_waiters"),
    ("heed_thresholds", "run_overdue"),
    ("leave_to_home", "forward_to_owner"),
    ("live_in", "with_region"),
    ("load_ahead", "prefetch_wakers"),
    ("look_ahead", "prefetch"),
    ("net::Elsewhere", "net::OwnerError"),
    ("open_post", "drain_mailbox"),
    ("operations_long", "operations_stalled"),
    ("or_drain", "until_shutdown"),
    ("remote_event", "oneshot::shared"),
    ("run_and", "run_with_ready"),
    ("set_most_steps", "set_max_steps"),
    ("set_steady", "advance_only_when_idle"),
    ("sim::spend", "sim::busy_for"),
    ("spilled_bytes", "overflow_bytes"),
    ("state_bytes", "cache_affinity"),
    ("struct Post", "Mailbox"),
    ("struct Supply", "BumpAllocator"),
    ("uproot", "clear"),
    ("wake_contained", "wake_catching_panics"),
    // store, mqtt, access, broker
    ("Ack::of", "Ack::success"),
    ("Bell", "Notify"),
    ("Chore", "PieceRead"),
    ("Desk", "SendContext"),
    ("Disconnect::because", "Disconnect::new"),
    ("Keeper", "JournalTask or ListenerManager"),
    ("OfPacket", "PacketFilter"),
    ("Owing", "PendingRetained"),
    ("Parting", "PendingWill"),
    ("Partings", "PendingWills"),
    ("QoS::of", "QoS::from_u8"),
    ("Ticket", "Lsn"),
    ("UnderWay", "DeliveryLimiter"),
    ("error.what()", "error.message()"),
    ("keep_pace", "wait_for_rate"),
    ("part_of", "enqueue_will"),
    ("receives_nothing", "expect_no_message"),
    ("soon_durable", "durable_within_timeout"),
    ("take_up", "resume"),
    ("turned_away", "rejected"),
    // web, config, service
    ("Config::of", "Config::with_root"),
    ("ConfigError::of", "ConfigError::for_key"),
    ("Door", "ListenerKind"),
    ("DoorStages", "AcceptStages"),
    ("Entrances", "Listeners"),
    ("Guest", "Peer"),
    ("Hangups", "SighupHandler"),
    ("Mistake", "ConfigError"),
    ("Symlinks::Refused", "Symlinks::Deny"),
    ("curl_well", "curl_output"),
    ("doubts", "warnings"),
    ("exits_well", "expect_success"),
    ("kept_by", "references"),
    ("listed_twice", "duplicate_addresses"),
    ("look_closer", "load_or_revalidate"),
    ("misled", "reject_plain_http"),
    ("to_https", "redirect_https"),
    ("to_tls", "redirect_https"),
    ("turn_away", "reject"),
    // bench and the command
    ("Fleet", "Clients"),
    ("Happened", "Event"),
    ("LINGER_READS", "MAX_LINGER_READS"),
    ("Lineup", "Selection"),
    ("Reread", "ReloadReport"),
    ("Tally", "Counts or CohortStats"),
    ("Teller", "StatusReporter"),
    ("heed_signals", "install_signal_handlers"),
    // configuration keys, flags and environment variables
    ("PHALANX_BROKER_MAX_QUEUE", "PHALANX_BROKER_MAX_QUEUED_MESSAGES"),
    ("PHALANX_LISTEN", "PHALANX_WEB_LISTEN or PHALANX_BROKER_LISTEN"),
    ("core-cache", "l2-cache-size"),
    ("core_cache", "l2_cache_size"),
    ("long-operation", "stall-threshold"),
    ("long_operation", "stall_threshold"),
    ("max-data", "max-persistence-bytes"),
    ("max-under-way", "max-inflight-deliveries"),
    ("runtime.drain", "runtime.shutdown-timeout"),
    ("runtime.hold", "runtime.batch-delay"),
    ("target-wait", "max-queue-delay"),
    ("target_wait", "max_queue_delay"),
    ("to-tls", "redirect-https"),
    ("ws-origin", "allowed-origins"),
    // constants
    ("const FEW", "a name of what it bounds, such as MAX_SEARCHED_VALUES"),
    ("const KEPT", "a name of what it bounds, such as POOL_CAP"),
    ("const LEAST", "a name of what it bounds, such as MIN_BUFFERS"),
    ("const LONG", "a name of what it bounds, such as MAX_NAME_BYTES"),
    ("const MANY", "a name of what it bounds, such as MAX_SCHEMAS"),
    ("const MOST", "a name of what it bounds, such as MAX_BATCH"),
    ("const MUCH", "a name of what it bounds, such as MAX_BATCH_BYTES"),
    ("const TOLD", "a name of what it bounds, such as MAX_BATCH_BYTES"),
];

/// Finds retired names.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    check_words(tree, RETIRED)
}

/// [`check`] with the given table.
fn check_words(tree: &Tree, retired: &[(&str, &str)]) -> Vec<Fault> {
    let is_searched = |path: &str| {
        EXTENSIONS.iter().any(|extension| path.ends_with(extension)) && !EXEMPT.contains(&path)
    };
    let mut faults = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| is_searched(path)) {
        for (old, new) in retired.iter().filter(|(old, _)| text.contains(old)) {
            let lines = text.lines().enumerate().filter(|(_, line)| has_text(line, old));
            faults.extend(lines.map(|(i, _)| {
                Fault::new(path, i + 1, format!("`{old}` is a retired name; use {new}"))
            }));
        }
    }
    faults
}

/// Whether `line` contains `text`, and not as part of a longer identifier. In a text with a hyphen, as a configuration
/// key, hyphens count as part of an identifier.
fn has_text(line: &str, text: &str) -> bool {
    let hyphens = text.contains('-');
    let continues = |c: char| c.is_alphanumeric() || c == '_' || (c == '-' && hyphens);
    let starts = text.starts_with(continues);
    let ends = text.ends_with(continues);
    line.match_indices(text).any(|(at, _)| {
        let is_part = starts && line[..at].ends_with(continues)
            || ends && line[at + text.len()..].starts_with(continues);
        !is_part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &[(&str, &str)] = &[
        ("Parcel", "Envelope"),
        ("target-wait", "max-queue-delay"),
        ("fn first_of", "select"),
        ("const MOST", "a name of what it bounds"),
    ];

    fn lines_of(path: &str, text: &str) -> Vec<usize> {
        check_words(&Tree::from_files(&[(path, text)]), WORDS).into_iter().map(|f| f.line).collect()
    }

    #[test]
    fn retired_names_are_reported_with_the_new_name() {
        let tree = Tree::from_files(&[("docs/a.md", "\nA `Parcel`.")]);
        let faults: Vec<_> = check_words(&tree, WORDS).iter().map(ToString::to_string).collect();
        assert_eq!(faults, ["docs/a.md:2: `Parcel` is a retired name; use Envelope"]);
        assert_eq!(lines_of("a.rs", "struct Parcel;\nfn f(p: &Parcel<'_>) {}"), [1, 2]);
        assert_eq!(lines_of("a.toml", "[overload]\ntarget-wait = 1"), [2]);
        assert_eq!(lines_of("a.rs", "pub fn first_of() {}"), [1]);
        assert_eq!(lines_of("a.rs", "pub(crate) const MOST: usize = 1;"), [1]);
    }

    #[test]
    fn longer_words_are_not() {
        assert_eq!(lines_of("a.rs", "Parcels, SubParcel, my_Parcel"), [0; 0]);
        assert_eq!(lines_of("a.rs", "no-target-wait target-waits target-wait-for"), [0; 0]);
        assert_eq!(lines_of("a.rs", "fn first_offer() { first_of() }"), [0; 0]);
        assert_eq!(lines_of("a.rs", "const MOST_USED: u8 = MOST;"), [0; 0]);
    }

    #[test]
    fn other_files_are_not_searched() {
        assert_eq!(lines_of("CHANGELOG.md", "Parcel"), [0; 0]);
        assert_eq!(lines_of("Cargo.lock", "Parcel"), [0; 0]);
    }
}
