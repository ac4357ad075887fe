"""Attachments to an update, which the protocol carries and admission rules judge."""

from exhume.protocol.message import Batch, Message, count, itemise, message

__all__ = ["Batch", "Message", "count", "itemise", "message"]
