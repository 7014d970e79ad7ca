-- Run once, when the database is made: its owner, who migrates and is no superuser.
\set owner_password `cat /secrets/database/owner_password`
CREATE ROLE fencepost_owner LOGIN CREATEROLE CREATEDB PASSWORD :'owner_password';
CREATE DATABASE fencepost OWNER fencepost_owner;
