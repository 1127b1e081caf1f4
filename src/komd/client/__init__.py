"""A client of `komd serve`: `komd.client.Client`. It needs nothing but Python.

    from komd.client import Client

    with Client("http://127.0.0.1:8000") as service:
        service.post_events([{"user_id": "ana", "item_id": "i7", "type": "like"}])
        for item in service.recommend("ana", n=5)["items"]:
            print(item["rank"], item["name"], item["score"])

`http_client.py` has the client, `answers.py` the types of its answers, which are made from the API's description.
"""

from komd.client.http_client import Client, ServiceError

__all__ = ["Client", "ServiceError"]
