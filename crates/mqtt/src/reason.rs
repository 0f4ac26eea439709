//! Reason codes (MQTT 5 §2.4).

/// A reason code; codes from 0x80 are failures. Unknown codes are allowed.
///
/// ```
/// use phalanx_mqtt::Reason;
///
/// assert!(Reason::QUOTA_EXCEEDED.is_failure());
/// assert_eq!(Reason::QUOTA_EXCEEDED.to_string(), "quota exceeded");
/// assert_eq!(Reason(0xff).to_string(), "reason 0xff");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason(pub u8);

macro_rules! reasons {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        impl Reason {
            $(#[doc = concat!("`", stringify!($code), "`: ", $text, ".")]
            pub const $name: Self = Self($code);)*

            /// The standard's name of the code, if it has one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    SUCCESS = 0x00, "success";
    GRANTED_QOS_1 = 0x01, "granted QoS 1";
    GRANTED_QOS_2 = 0x02, "granted QoS 2";
    DISCONNECT_WITH_WILL = 0x04, "disconnect with will message";
    NO_MATCHING_SUBSCRIBERS = 0x10, "no matching subscribers";
    NO_SUBSCRIPTION_EXISTED = 0x11, "no subscription existed";
    CONTINUE_AUTHENTICATION = 0x18, "continue authentication";
    RE_AUTHENTICATE = 0x19, "re-authenticate";
    UNSPECIFIED_ERROR = 0x80, "unspecified error";
    MALFORMED_PACKET = 0x81, "malformed packet";
    PROTOCOL_ERROR = 0x82, "protocol error";
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83, "implementation specific error";
    UNSUPPORTED_PROTOCOL_VERSION = 0x84, "unsupported protocol version";
    CLIENT_IDENTIFIER_NOT_VALID = 0x85, "client identifier not valid";
    BAD_USER_NAME_OR_PASSWORD = 0x86, "bad user name or password";
    NOT_AUTHORIZED = 0x87, "not authorized";
    SERVER_UNAVAILABLE = 0x88, "server unavailable";
    SERVER_BUSY = 0x89, "server busy";
    BANNED = 0x8a, "banned";
    SERVER_SHUTTING_DOWN = 0x8b, "server shutting down";
    BAD_AUTHENTICATION_METHOD = 0x8c, "bad authentication method";
    KEEP_ALIVE_TIMEOUT = 0x8d, "keep alive timeout";
    SESSION_TAKEN_OVER = 0x8e, "session taken over";
    TOPIC_FILTER_INVALID = 0x8f, "topic filter invalid";
    TOPIC_NAME_INVALID = 0x90, "topic name invalid";
    PACKET_IDENTIFIER_IN_USE = 0x91, "packet identifier in use";
    PACKET_IDENTIFIER_NOT_FOUND = 0x92, "packet identifier not found";
    RECEIVE_MAXIMUM_EXCEEDED = 0x93, "receive maximum exceeded";
    TOPIC_ALIAS_INVALID = 0x94, "topic alias invalid";
    PACKET_TOO_LARGE = 0x95, "packet too large";
    MESSAGE_RATE_TOO_HIGH = 0x96, "message rate too high";
    QUOTA_EXCEEDED = 0x97, "quota exceeded";
    ADMINISTRATIVE_ACTION = 0x98, "administrative action";
    PAYLOAD_FORMAT_INVALID = 0x99, "payload format invalid";
    RETAIN_NOT_SUPPORTED = 0x9a, "retain not supported";
    QOS_NOT_SUPPORTED = 0x9b, "QoS not supported";
    USE_ANOTHER_SERVER = 0x9c, "use another server";
    SERVER_MOVED = 0x9d, "server moved";
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9e, "shared subscriptions not supported";
    CONNECTION_RATE_EXCEEDED = 0x9f, "connection rate exceeded";
    MAXIMUM_CONNECT_TIME = 0xa0, "maximum connect time";
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xa1, "subscription identifiers not supported";
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xa2, "wildcard subscriptions not supported";
}

impl Reason {
    /// Whether the code is a failure.
    pub const fn is_failure(self) -> bool {
        self.0 >= 0x80
    }

    /// The closest return code of a CONNACK in MQTT 3.1.1 (its §3.2.2.3).
    pub(crate) const fn to_v3(self) -> u8 {
        match self {
            Self(code) if code < 0x80 => 0,
            Self::UNSUPPORTED_PROTOCOL_VERSION => 1,
            Self::CLIENT_IDENTIFIER_NOT_VALID => 2,
            Self::BAD_USER_NAME_OR_PASSWORD => 4,
            Self::NOT_AUTHORIZED | Self::BANNED | Self::BAD_AUTHENTICATION_METHOD => 5,
            _ => 3,
        }
    }

    /// The reason code of a return code in a CONNACK of MQTT 3.1.1.
    pub(crate) const fn of_v3(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::SUCCESS,
            1 => Self::UNSUPPORTED_PROTOCOL_VERSION,
            2 => Self::CLIENT_IDENTIFIER_NOT_VALID,
            3 => Self::SERVER_UNAVAILABLE,
            4 => Self::BAD_USER_NAME_OR_PASSWORD,
            5 => Self::NOT_AUTHORIZED,
            _ => return None,
        })
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "reason {:#04x}", self.0),
        }
    }
}
