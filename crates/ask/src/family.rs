//! The macro that generates families of asks.

/// Generates a family from a list of `Name { fields } -> Reply`: a struct for each ask, the enums of asks and replies, and
/// the conversions between them.
macro_rules! family {
    (
        $(#[$family_doc:meta])*
        $family:ident, $replies:ident in $message:ident;
        $(
            $(#[$doc:meta])*
            $name:ident { $( $(#[$attribute:meta])* $field:ident: $type:ty ),* $(,)? } -> $reply:ty;
        )*
    ) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Serialize, Deserialize)]
            pub struct $name {
                $( $(#[$attribute])* pub $field: $type, )*
            }

            impl $crate::Ask for $name {
                type Reply = $reply;

                fn into_message(self) -> $crate::AskMessage {
                    $crate::AskMessage::$message($family::$name(self))
                }

                fn read(reply: $crate::ReplyMessage) -> Option<$reply> {
                    match reply {
                        $crate::ReplyMessage::$message($replies::$name(reply)) => Some(*reply),
                        _ => None,
                    }
                }
            }

            impl $crate::FamilyAsk for $name {
                fn wrap(reply: $reply) -> $crate::ReplyMessage {
                    $crate::ReplyMessage::$message($replies::$name(Box::new(reply)))
                }
            }
        )*

        $(#[$family_doc])*
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $family {
            $( $(#[$doc])* $name($name), )*
        }

        impl $family {
            /// Returns the name of the ask, for logs.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$name(_) => stringify!($name), )*
                }
            }
        }

        /// Replies of the family. Each variant replies to the ask of the same name. Boxed: they differ much in size.
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "each reply is documented at its ask")]
        pub enum $replies {
            $( $name(Box<$reply>), )*
        }
    };
}

pub(crate) use family;
