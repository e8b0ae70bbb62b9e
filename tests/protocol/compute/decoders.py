"""Small decoders for tests of all of them: with heads that share keys and values, tied, and with neither."""

from touchstone.step.plain_decoder import DecoderConfig

DECODERS = {
    "plain": DecoderConfig(64, 32, 44, 2, 4, 4, 16),
    "grouped": DecoderConfig(64, 32, 48, 2, 4, 2, 16),
    "tied": DecoderConfig(64, 24, 40, 2, 4, 2, 16, tied=True, rope_theta=1e6, norm_epsilon=1e-6),
}
