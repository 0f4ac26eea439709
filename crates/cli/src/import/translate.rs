//! Translation of options.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use phalanx_broker::{Config, EventClass};

use super::UNKNOWN;
use super::bridges::Bridges;
use super::listeners::Listeners;
use super::notes::{Notes, reason};
use super::packet_size::PacketSize;
use super::reader::Setting;

/// Translates all options.
pub(super) fn translate(settings: &[Setting]) -> (Config, Notes) {
    let (mut config, mut notes) = (Config::default(), Notes::default());
    let per_listener =
        |setting: &Setting| setting.key == "per_listener_settings" && setting.flag() == Ok(true);
    let per_listener = settings.iter().any(per_listener);
    let (mut listeners, mut bridges) = (Listeners::new(per_listener), Bridges::default());
    let mut logging = Logging { notices: true, connections: true };
    let (mut persists, mut location) = (false, None);
    let mut packet_size = PacketSize::default();
    for setting in settings {
        let value = setting.value.as_str();
        let result = match setting.key.as_str() {
            _ if bridges.take(setting, &mut notes) => Ok(()),
            _ if listeners.take(setting, &mut notes) => Ok(()),
            "max_packet_size" => number(value).map(|max| packet_size.packet = max),
            "message_size_limit" => number(value).map(|max| packet_size.payload = max),
            "persistence" => setting.flag().map(|flag| persists = flag),
            "persistence_location" => {
                location = Some(setting);
                Ok(())
            }
            "log_type" => {
                logging.of_type(settings);
                Ok(())
            }
            "connection_messages" => setting.flag().map(|flag| logging.connections = flag),
            _ => take_other(&mut config, setting, &mut notes),
        };
        if let Err(reason) = result {
            notes.left_out(setting, &reason);
        }
    }
    listeners.finish(&mut config, &mut notes);
    bridges.finish(&mut config, &mut notes);
    config.ephemeral = !persists;
    if persists {
        let folder = location.map_or("/var/lib/mosquitto", |setting| setting.value.as_str());
        let folder = format!("{}-phalanx", folder.trim_end_matches('/'));
        if let Some(setting) = location {
            let message =
                "sessions and retained messages are not imported, so another directory is used";
            notes.hint(setting, message);
        }
        config.persistence_dir = Some(folder.into());
    } else if let Some(setting) = location {
        notes.unneeded(setting, "persistence is off");
    }
    packet_size.finish(&mut config, &mut notes);
    if logging.notices && logging.connections {
        config.log.events =
            vec![EventClass::Connects, EventClass::Disconnects, EventClass::Refusals];
    }
    (config, notes)
}

/// The events of clients that mosquitto logs.
struct Logging {
    notices: bool,
    connections: bool,
}

impl Logging {
    /// Any `log_type` replaces the default types.
    fn of_type(&mut self, settings: &[Setting]) {
        let types = settings.iter().filter(|setting| setting.key == "log_type");
        self.notices = { types }.any(|setting| ["notice", "all"].contains(&&*setting.value));
    }
}

/// Translates an option that does not depend on others.
fn take_other(config: &mut Config, setting: &Setting, notes: &mut Notes) -> Result<(), String> {
    let value = setting.value.as_str();
    let limits = &mut config.limits;
    match setting.key.as_str() {
        "allow_anonymous" => config.security.allow_anonymous = setting.flag()?,
        "password_file" => config.security.password_file = Some(value.into()),
        "acl_file" => match &config.security.acl_file {
            Some(other) if *other != Path::new(value) => {
                return Err("all addresses share one access list; merge the files".to_owned());
            }
            _ => config.security.acl_file = Some(value.into()),
        },
        "global_max_connections" => {
            if let Some(max) = unlimited(value)? {
                limits.connections = max;
            }
        }
        "max_queued_messages" => limits.queued_messages = number(value)?.unwrap_or(usize::MAX),
        "max_queued_bytes" => limits.queued_bytes = number(value)?.unwrap_or(usize::MAX),
        "max_inflight_messages" => limits.inflight_messages = number(value)?.unwrap_or(u16::MAX),
        "max_keepalive" | "global_max_keepalive" => {
            limits.keep_alive = number(value)?.unwrap_or(0);
            if limits.keep_alive == u16::MAX {
                limits.keep_alive = 0;
            }
        }
        "max_topic_alias" => limits.topic_alias = number(value)?.unwrap_or(0),
        "persistent_client_expiration" => limits.session_expiry = expiry(value)?,
        "per_listener_settings" if !setting.flag()? => {
            notes.unneeded(setting, "without `[[listener]]`, all addresses share users and limits");
        }
        "per_listener_settings" => {
            notes.hint(
                setting,
                "`[[listener]]` has the users; the access list applies to all addresses",
            );
        }
        "sys_interval" => config.system_interval = Duration::from_secs(number(value)?.unwrap_or(0)),
        "retain_available" | "allow_zero_length_clientid" if setting.flag()? => {
            notes.unneeded(setting, "this is always the case");
        }
        "retain_available" => return Err("there is no equivalent".to_owned()),
        "allow_zero_length_clientid" => {
            return Err(
                "unlike with mosquitto, clients without an identifier are accepted".to_owned()
            );
        }
        key => match reason(key) {
            Some((true, reason)) => notes.unneeded(setting, reason),
            Some((false, reason)) => return Err(reason.to_owned()),
            None => return Err(UNKNOWN.to_owned()),
        },
    }
    Ok(())
}

/// A number; `None` for 0, which means no limit.
fn number<N: FromStr + Default + PartialEq>(value: &str) -> Result<Option<N>, String> {
    let number: N = value.parse().map_err(|_| "expected a number".to_owned())?;
    Ok(if number == N::default() { None } else { Some(number) })
}

/// A number; `None` for -1, which means no limit.
fn unlimited(value: &str) -> Result<Option<usize>, String> {
    if value == "-1" { Ok(None) } else { number(value) }
}

/// Seconds of a time such as `14d`.
fn expiry(value: &str) -> Result<u32, String> {
    const DAY: u32 = 86_400;
    let expected = || "expected a time such as 12h, 14d, 2w, 1m or 1y".to_owned();
    let unit = value.chars().next_back().ok_or_else(expected)?;
    let seconds = match unit {
        'h' => 3600,
        'd' => DAY,
        'w' => 7 * DAY,
        'm' => 30 * DAY,
        'y' => 365 * DAY,
        _ => return Err(expected()),
    };
    let number: u32 = value[..value.len() - unit.len_utf8()].parse().map_err(|_| expected())?;
    Ok(number.saturating_mul(seconds))
}

#[cfg(test)]
mod tests {
    use phalanx_broker::Direction;

    use super::*;
    use crate::import::reader::read;
    use crate::import::tests::translated;

    #[test]
    fn a_usual_configuration() {
        let (text, notes) = translated(
            "# Local.\nper_listener_settings false\nallow_anonymous false\npassword_file /etc/m/users\n\
             persistence true\npersistence_location /var/lib/mosquitto/\n\nlistener 1883 localhost\n\
             listener 8883\ncertfile /c.pem\nkeyfile /k.pem\nlistener 9001 192.0.2.1\nprotocol websockets\n\
             max_keepalive 120\npersistent_client_expiration 2w\nmax_connections -1\nlog_type error\n",
        );
        let expected = "allowed-origins = [\"*\"]\nlisten = [\"mqtt://127.0.0.1:1883\", \"mqtts://[::]:8883\", \
                        \"ws://192.0.2.1:9001\"]\nmax-keep-alive = \"120s\"\nmax-packet-size = \"128M\"\n\
                        max-queued-bytes = \"128M\"\nmax-session-expiry = \"1209600s\"\n\
                        password-file = \"/etc/m/users\"\npersistence-dir = \"/var/lib/mosquitto-phalanx\"\n\n\
                        [tls]\ncertificate = \"/c.pem\"\nkey = \"/k.pem\"\n";
        assert_eq!(text, expected);
        assert!(notes[0].starts_with("2: per_listener_settings false: not needed: "), "{notes:?}");
        assert_eq!(notes.len(), 5, "{notes:?}");
        assert!(notes[4].starts_with("max-queued-bytes: as high as max-packet-size"), "{notes:?}");
        assert!(notes[3].starts_with("max-packet-size: mosquitto accepts packets of any size"));
    }

    #[test]
    fn bridges_are_translated() {
        let (text, notes) = translated(
            "connection up\naddresses a.example.org:8883 b.example.org\ntopic # both 2 in/ out/\ntopic x/+ in\n\
             topic \"\" out 1 here there\nremote_clientid me\nremote_username u\nremote_password p\n\
             cleansession true\nlocal_cleansession false\nkeepalive_interval 30\nrestart_timeout 2 20\n\
             bridge_cafile /ca.pem\ntry_private true\nround_robin true\nconnection down\naddress [::1]:1884\n\
             topic a\n",
        );
        let mut config = Config::default();
        let read = phalanx_config::read(
            &mut config,
            &text,
            "test",
            Path::new(""),
            &mut phalanx_config::Origins::default(),
        );
        assert!(read.is_ok() && config.check().is_empty(), "{read:?} {:?}", config.check());
        let [up, down] = &config.bridges[..] else { panic!("{text}") };
        let addresses: Vec<_> = up.address.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["mqtts://a.example.org:8883", "mqtts://b.example.org:1883"]);
        let topics = up
            .topics
            .iter()
            .map(|topic| (topic.local(), topic.remote(), topic.qos, topic.direction));
        let expected = [
            ("in/#", "out/#", 2, Direction::Both),
            ("x/+", "x/+", 0, Direction::In),
            ("here", "there", 1, Direction::Out),
        ];
        assert!(topics.eq(expected.map(|(local, remote, qos, way)| (
            local.into(),
            remote.into(),
            qos,
            way
        ))));
        assert_eq!(
            (up.client_id.as_str(), up.username.as_deref(), up.keep_alive),
            ("me", Some("u"), 30)
        );
        assert!(up.clean_start && !up.local_clean_start && up.password_file.is_some());
        let delays = (up.reconnect_delay.as_secs(), up.max_reconnect_delay.as_secs());
        assert_eq!((delays, up.tls.is_some()), ((2, 20), true));
        assert_eq!((down.name.as_str(), down.client_id.as_str()), ("down", "down"));
        let kinds = [
            "8: remote_password p: note",
            "14: try_private true: not needed",
            "15: round_robin true: left out",
            "16: connection down: note",
        ];
        // Two findings concern packet size.
        assert_eq!(notes.len(), kinds.len() + 2, "{notes:?}");
        for kind in kinds {
            assert!(notes.iter().any(|note| note.starts_with(kind)), "{kind}: {notes:?}");
        }
    }

    #[test]
    fn notifications_for_this_broker_are_not_sent_to_the_remote_broker() {
        let bridge = "connection c\naddress a\nremote_clientid c\nnotification_topic t\n";
        for (more, is_left_out) in [
            ("notifications true\n", false),
            ("notifications false\n", true),
            ("notifications_local_only true\n", true),
            ("notifications 0\n", true),
            ("notifications_local_only 1\n", true),
        ] {
            let (text, notes) = translated(&format!("{bridge}{more}"));
            assert_eq!(text.contains("notification-topic = \"t\""), !is_left_out, "{text}");
            let is_noted = |note: &String| note.starts_with("4: notification_topic t: left out: ");
            assert_eq!(notes.iter().any(is_noted), is_left_out, "{notes:?}");
        }
    }

    #[test]
    fn bridges_with_tls_are_not_translated_to_bridges_without() {
        let (text, _) = translated("connection c\naddress a:8883\nbridge_tls_use_os_certs true\n");
        assert!(text.contains("mqtts://a:8883"), "{text}");
        let (text, notes) = translated("connection c\naddress a:8883\nbridge_psk 12ab\n");
        assert!(!text.contains("mqtt://a"), "{text}");
        assert!(notes.iter().any(|note| note.contains("bridge_psk 12ab: left out")), "{notes:?}");
        let (_, notes) = translated("connection c\naddress a\nbridge_cafil /ca\n");
        let unknown = "3: bridge_cafil /ca: left out: unknown option";
        assert!(notes.iter().any(|note| note == unknown), "{notes:?}");
    }

    #[test]
    fn options_that_bridges_do_not_have_are_left_out() {
        for option in ["bridge_require_ocsp true", "bridge_max_packet_size 1000"] {
            let (_, notes) = translated(&format!("connection c\naddress a\n{option}\n"));
            let left_out = format!("3: {option}: left out: ");
            assert!(notes.iter().any(|note| note.starts_with(&left_out)), "{notes:?}");
        }
    }

    #[test]
    fn an_option_with_several_notes_counts_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "connection c\naddresses a:1:2 b:1:2 c:1:2\n").unwrap();
        let settings = read(file.path()).unwrap();
        let summary = translate(&settings).1.summary(settings.len());
        assert_eq!(summary, "2 options: 1 translated, 0 not needed, 1 left out");
    }

    #[test]
    fn the_defaults_of_mosquitto() {
        let (text, notes) = translated("");
        let events = "log-events = [\"connects\", \"disconnects\", \"refusals\"]\n";
        let size = "max-packet-size = 268435455\nmax-queued-bytes = 268435455\n";
        assert_eq!((text, notes.len()), (format!("ephemeral = true\n{events}{size}"), 2));
    }

    #[test]
    fn omitted_settings_are_named_with_their_lines() {
        let table = [
            ("bridge_cafile x", "no `connection`"),
            ("auth_plugin x.so", "plugins"),
            ("listener 0 /run/m.sock", "Unix sockets"),
            ("listener x", "expected a port"),
            ("listener 1883 example.org", "host name"),
            ("max_queued_messages many", "expected a number"),
            ("persistent_client_expiration 3", "expected a time"),
            ("certfil x", "unknown option"),
            ("retain_available false", "no equivalent"),
            ("max_qos 1", "every QoS"),
        ];
        for (line, reason) in table {
            let (_, notes) = translated(&format!("\n{line}\nmax_packet_size 1000\n"));
            assert_eq!(notes.len(), 1, "{line}: {notes:?}");
            assert!(notes[0].starts_with(&format!("2: {line}: left out: ")), "{}", notes[0]);
            assert!(notes[0].contains(reason), "{}", notes[0]);
        }
    }

    #[test]
    fn included_files_are_read() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        let folder = path("conf.d");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(
            folder.join("b.conf"),
            "max_queued_messages 5\nmax_inflight_messages 20\nmax_packet_size 1000\n",
        )
        .unwrap();
        std::fs::write(folder.join("c.txt"), "nothing\n").unwrap();
        let main = path("m.conf");
        std::fs::write(&main, format!("include_dir {}\n", folder.display())).unwrap();
        let (config, notes) = translate(&read(&main).unwrap());
        let limits = &config.limits;
        assert_eq!((limits.queued_messages, limits.inflight_messages), (5, 20));
        assert_eq!(notes.lines().count(), 0);
        assert!(read(Path::new("/nowhere")).unwrap_err().contains("cannot read /nowhere"));
    }
}
