"""Access rules, which are not kept here: answered as Kafka does without an authorizer."""

from __future__ import annotations

from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.wire.kafka import ApiKey, ErrorCode

DISABLED: Body = {"error_code": ErrorCode.SECURITY_DISABLED, "error_message": "No Authorizer is configured."}


class AccessHandlers:
    """DescribeAcls, CreateAcls, DeleteAcls."""

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.DESCRIBE_ACLS: Served(self.describe_acls, 1, 3),
            ApiKey.CREATE_ACLS: Served(self.create_acls, 1, 3),
            ApiKey.DELETE_ACLS: Served(self.delete_acls, 1, 3),
        }

    def describe_acls(self, call: Call) -> Body:
        """None are kept."""
        return DISABLED

    def create_acls(self, call: Call) -> Body:
        """Refused one by one."""
        return {"results": [DISABLED for _ in call.body.creations]}

    def delete_acls(self, call: Call) -> Body:
        """Refused one by one."""
        return {"filter_results": [DISABLED for _ in call.body.filters]}
